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
mod tests;
