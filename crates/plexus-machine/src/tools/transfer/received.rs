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
mod tests;
