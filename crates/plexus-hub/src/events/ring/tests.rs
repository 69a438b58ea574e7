use std::sync::Arc;

use plexus_proto::{EventKind, SessionId};

use super::{BATCH, MAX_BYTES, MAX_EVENTS, Ring, RingRead};
use crate::events::item::Item;

fn item(pos: i64, bytes: usize) -> Arc<Item> {
    Arc::new(Item {
        session_id: SessionId::new(),
        seq: pos,
        pos,
        kind: EventKind::ToolCall,
        owner: String::new(),
        json: "x".repeat(bytes).into(),
    })
}

fn positions(read: &RingRead) -> (Vec<i64>, i64) {
    match read {
        RingRead::Items { items, through } => (items.iter().map(|item| item.pos).collect(), *through),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reader_gets_events_after_its_position_up_to_a_batch() {
    let mut ring = Ring::default();
    assert!(matches!(ring.take(0, |_| true), RingRead::Idle));
    ring.begin(10);
    assert!(matches!(ring.take(9, |_| true), RingRead::Behind));
    assert!(matches!(ring.take(10, |_| true), RingRead::Wait));
    for pos in 11..=1_000 {
        ring.push(item(pos, 10));
    }
    assert_eq!(positions(&ring.take(997, |_| true)), (vec![998, 999, 1_000], 1_000));
    let (first, through) = positions(&ring.take(10, |_| true));
    assert_eq!((first.len(), through), (BATCH, 10 + BATCH as i64));
    assert_eq!(positions(&ring.take(10, |item| item.pos == 500)), (vec![500], 1_000));
    assert_eq!(positions(&ring.take(10, |_| false)), (vec![], 1_000));
    ring.clear();
    assert!(matches!(ring.take(1_000, |_| true), RingRead::Idle));
}

#[test]
fn oldest_events_are_evicted_by_count_and_by_size() {
    let mut ring = Ring::default();
    ring.begin(0);
    for pos in 1..=MAX_EVENTS as i64 + 5 {
        ring.push(item(pos, 1));
    }
    assert!(matches!(ring.take(4, |_| true), RingRead::Behind));
    assert_eq!(positions(&ring.take(5, |_| true)).0[0], 6);
    let next = MAX_EVENTS as i64 + 6;
    ring.push(item(next, MAX_BYTES + 1));
    assert!(matches!(ring.take(next - 2, |_| true), RingRead::Behind));
    assert_eq!(positions(&ring.take(next - 1, |_| true)), (vec![next], next));
}
