//! Which parts of a file have arrived.
//!
//! They come in about their order, several at a time. Counted are the bytes from the beginning on; what came before its turn
//! is remembered until that is reached. It is bounded by how far ahead anything is taken.

use std::collections::BTreeMap;

/// So far ahead of what is complete a part may be.
pub(super) const AHEAD: u64 = 64 << 20;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Received {
    upto: u64,
    /// Parts after that: their beginnings and ends.
    ahead: BTreeMap<u64, u64>,
}

impl Received {
    pub(super) fn upto(upto: u64) -> Self {
        Self { upto, ahead: BTreeMap::new() }
    }

    /// Bytes from the beginning on.
    pub(super) fn complete(&self) -> u64 {
        self.upto
    }

    /// Whether a part may come now.
    pub(super) fn takes(&self, offset: u64) -> bool {
        offset <= self.upto + AHEAD
    }

    pub(super) fn add(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let known = self.ahead.entry(offset).or_insert(end);
        *known = (*known).max(end);
        while let Some((&begin, &end)) = self.ahead.first_key_value()
            && begin <= self.upto
        {
            self.ahead.remove(&begin);
            self.upto = self.upto.max(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_any_order_and_twice_add_up() {
        let mut received = Received::default();
        for (part, complete) in [(2, 0), (1, 0), (1, 0), (0, 30), (0, 30), (4, 30), (3, 50), (2, 50)] {
            received.add(part * 10, 10);
            assert_eq!(received.complete(), complete, "after part {part}");
        }
        assert!(received.ahead.is_empty());
        assert!(received.takes(50 + AHEAD) && !received.takes(51 + AHEAD));
    }

    #[test]
    fn a_part_that_overlaps_counts_for_what_is_new() {
        let mut received = Received::upto(15);
        received.add(10, 10);
        assert_eq!(received.complete(), 20);
        received.add(25, 5);
        received.add(22, 20);
        received.add(20, 2);
        assert_eq!(received.complete(), 42);
    }
}
