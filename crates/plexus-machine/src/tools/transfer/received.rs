//! Tracks which parts of a file have been received.
//!
//! Parts arrive roughly in order, several at a time. The state is the number of contiguous bytes from the start, and
//! the parts received beyond them. It is bounded, because a part may only be a limited distance ahead.

use std::collections::BTreeMap;

/// The maximum distance of a part ahead of the contiguous bytes.
pub(super) const MAX_PARTS_AHEAD: u64 = 64 << 20;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Received {
    complete_bytes: u64,
    /// Later parts: their start and end offsets.
    ahead: BTreeMap<u64, u64>,
}

impl Received {
    pub(super) fn complete_bytes(complete_bytes: u64) -> Self {
        Self { complete_bytes, ahead: BTreeMap::new() }
    }

    /// The number of contiguous bytes from the start.
    pub(super) fn complete(&self) -> u64 {
        self.complete_bytes
    }

    /// Whether a part at this offset is accepted now.
    pub(super) fn accepts(&self, offset: u64) -> bool {
        offset <= self.complete_bytes + MAX_PARTS_AHEAD
    }

    pub(super) fn add(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let known = self.ahead.entry(offset).or_insert(end);
        *known = (*known).max(end);
        while let Some((&begin, &end)) = self.ahead.first_key_value()
            && begin <= self.complete_bytes
        {
            self.ahead.remove(&begin);
            self.complete_bytes = self.complete_bytes.max(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_accepted_in_any_order_and_twice() {
        let mut received = Received::default();
        for (part, complete) in [(2, 0), (1, 0), (1, 0), (0, 30), (0, 30), (4, 30), (3, 50), (2, 50)] {
            received.add(part * 10, 10);
            assert_eq!(received.complete(), complete, "after part {part}");
        }
        assert!(received.ahead.is_empty());
        assert!(received.accepts(50 + MAX_PARTS_AHEAD) && !received.accepts(51 + MAX_PARTS_AHEAD));
    }

    #[test]
    fn overlapping_parts_count_once() {
        let mut received = Received::complete_bytes(15);
        received.add(10, 10);
        assert_eq!(received.complete(), 20);
        received.add(25, 5);
        received.add(22, 20);
        received.add(20, 2);
        assert_eq!(received.complete(), 42);
    }
}
