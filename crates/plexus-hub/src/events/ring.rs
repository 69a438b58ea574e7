//! The newest events, cached for readers that keep up.
//!
//! The ring contains every event with a position after `from`, up to and including `tip`; older events must be read
//! from the database. It is limited by number and by bytes, and the oldest events are evicted first.

use std::collections::VecDeque;
use std::sync::Arc;

use super::item::Item;

/// Maximum number of cached events.
const MAX_EVENTS: usize = 4_096;
/// Maximum number of cached JSON bytes; the newest event is retained whatever its size.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of events, and of JSON bytes, per batch.
pub(super) const BATCH: usize = 256;
pub(super) const BATCH_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub(super) struct Ring {
    /// Whether the ring follows the database.
    filled: bool,
    from: i64,
    tip: i64,
    items: VecDeque<Arc<Item>>,
    bytes: usize,
}

/// Result of reading the ring.
#[derive(Debug)]
pub(super) enum RingRead {
    /// Matching events, possibly none; the reader has now seen everything up to `through`.
    Items { items: Vec<Arc<Item>>, through: i64 },
    /// No new events yet.
    Wait,
    /// The ring does not (yet) follow the database.
    Idle,
    /// The ring starts after the reader's position.
    Behind,
}

impl Ring {
    /// Starts to follow the database after this position.
    pub(super) fn begin(&mut self, tip: i64) {
        *self = Self { filled: true, from: tip, tip, items: VecDeque::new(), bytes: 0 };
    }

    /// Empties the ring because there are no readers or the database cannot be read.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn push(&mut self, item: Arc<Item>) {
        self.tip = item.pos;
        self.bytes += item.json.len();
        self.items.push_back(item);
        while self.items.len() > MAX_EVENTS || (self.bytes > MAX_BYTES && self.items.len() > 1) {
            let Some(oldest) = self.items.pop_front() else { return };
            self.bytes -= oldest.json.len();
            self.from = oldest.pos;
        }
    }

    /// Whether every event after a position is, or will be, in the ring.
    pub(super) fn covers(&self, after: i64) -> bool {
        self.filled && after >= self.from
    }

    /// The matching events after a position, up to a batch.
    pub(super) fn take(&self, after: i64, matches: impl Fn(&Item) -> bool) -> RingRead {
        if !self.filled {
            return RingRead::Idle;
        }
        if !self.covers(after) {
            return RingRead::Behind;
        }
        if after >= self.tip {
            return RingRead::Wait;
        }
        let first = self.items.partition_point(|item| item.pos <= after);
        let (mut items, mut bytes) = (Vec::new(), 0);
        for item in self.items.range(first..).filter(|item| matches(item)) {
            items.push(item.clone());
            bytes += item.json.len();
            if items.len() >= BATCH || bytes >= BATCH_BYTES {
                return RingRead::Items { through: item.pos, items };
            }
        }
        RingRead::Items { items, through: self.tip }
    }
}

#[cfg(test)]
mod tests {
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
}
