//! The newest events, kept for the readers that keep up.
//!
//! The ring holds every event with a place after `from`, up to and with `tip`; what is older has to
//! be read from the database. It is bounded by number and by bytes: the oldest events go first.

use std::collections::VecDeque;
use std::sync::Arc;

use super::item::Item;

/// Events kept.
const KEPT: usize = 4_096;
/// Bytes of JSON kept; the newest event is kept whatever its size.
const KEPT_BYTES: usize = 16 << 20;
/// Events, and bytes of JSON, that a reader takes at a time.
pub(super) const BATCH: usize = 256;
pub(super) const BATCH_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub(super) struct Ring {
    /// Whether it follows the database.
    filled: bool,
    from: i64,
    tip: i64,
    items: VecDeque<Arc<Item>>,
    bytes: usize,
}

/// What the ring has for a reader.
#[derive(Debug)]
pub(super) enum Taken {
    /// Events that the reader wants, which may be none; it has now seen all up to `through`.
    Items { items: Vec<Arc<Item>>, through: i64 },
    /// Nothing yet.
    Wait,
    /// The ring does not follow the database, or not yet.
    Idle,
    /// The ring begins after the reader's place.
    Behind,
}

impl Ring {
    /// Begins to follow the database after this place.
    pub(super) fn begin(&mut self, tip: i64) {
        *self = Self { filled: true, from: tip, tip, items: VecDeque::new(), bytes: 0 };
    }

    /// Nobody reads any more, or the database cannot be followed.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn push(&mut self, item: Arc<Item>) {
        self.tip = item.pos;
        self.bytes += item.json.len();
        self.items.push_back(item);
        while self.items.len() > KEPT || (self.bytes > KEPT_BYTES && self.items.len() > 1) {
            let Some(oldest) = self.items.pop_front() else { return };
            self.bytes -= oldest.json.len();
            self.from = oldest.pos;
        }
    }

    /// Whether all that comes after a place is, or will be, in the ring.
    pub(super) fn covers(&self, after: i64) -> bool {
        self.filled && after >= self.from
    }

    /// What comes after a place, as far as it is wanted, up to a batch.
    pub(super) fn take(&self, after: i64, wanted: impl Fn(&Item) -> bool) -> Taken {
        if !self.filled {
            return Taken::Idle;
        }
        if !self.covers(after) {
            return Taken::Behind;
        }
        if after >= self.tip {
            return Taken::Wait;
        }
        let first = self.items.partition_point(|item| item.pos <= after);
        let (mut items, mut bytes) = (Vec::new(), 0);
        for item in self.items.range(first..).filter(|item| wanted(item)) {
            items.push(item.clone());
            bytes += item.json.len();
            if items.len() >= BATCH || bytes >= BATCH_BYTES {
                return Taken::Items { through: item.pos, items };
            }
        }
        Taken::Items { items, through: self.tip }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plexus_proto::{EventKind, SessionId};

    use super::{BATCH, KEPT, KEPT_BYTES, Ring, Taken};
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

    fn places(taken: &Taken) -> (Vec<i64>, i64) {
        match taken {
            Taken::Items { items, through } => (items.iter().map(|item| item.pos).collect(), *through),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reader_takes_what_follows_its_place_and_no_more_than_a_batch() {
        let mut ring = Ring::default();
        assert!(matches!(ring.take(0, |_| true), Taken::Idle));
        ring.begin(10);
        assert!(matches!(ring.take(9, |_| true), Taken::Behind));
        assert!(matches!(ring.take(10, |_| true), Taken::Wait));
        for pos in 11..=1_000 {
            ring.push(item(pos, 10));
        }
        assert_eq!(places(&ring.take(997, |_| true)), (vec![998, 999, 1_000], 1_000));
        let (first, through) = places(&ring.take(10, |_| true));
        assert_eq!((first.len(), through), (BATCH, 10 + BATCH as i64));
        assert_eq!(places(&ring.take(10, |item| item.pos == 500)), (vec![500], 1_000));
        assert_eq!(places(&ring.take(10, |_| false)), (vec![], 1_000));
        ring.clear();
        assert!(matches!(ring.take(1_000, |_| true), Taken::Idle));
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_too_large_ones() {
        let mut ring = Ring::default();
        ring.begin(0);
        for pos in 1..=KEPT as i64 + 5 {
            ring.push(item(pos, 1));
        }
        assert!(matches!(ring.take(4, |_| true), Taken::Behind));
        assert_eq!(places(&ring.take(5, |_| true)).0[0], 6);
        let next = KEPT as i64 + 6;
        ring.push(item(next, KEPT_BYTES + 1));
        assert!(matches!(ring.take(next - 2, |_| true), Taken::Behind));
        assert_eq!(places(&ring.take(next - 1, |_| true)), (vec![next], next));
    }
}
