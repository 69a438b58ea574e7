//! Selects the watched resources that one subscription request names.
//!
//! A server refuses such a request as a whole, without naming the offending resource. So that one client's
//! URI does not end the notifications for all others, refused URIs are found by bisection among the new ones,
//! and are left out until nobody watches them.

use std::collections::BTreeSet;

/// Refused requests before the remaining URIs are given up, until the selection changes.
const MAX_REFUSALS: usize = 24;

#[derive(Debug)]
pub(super) struct Selection {
    /// A request without resources makes sense, because the server has other notifications.
    may_be_empty: bool,
    /// Resources that the server accepted.
    accepted: BTreeSet<String>,
    /// Resources that the server refused individually.
    refused: BTreeSet<String>,
    /// Number of untried resources that were refused together.
    suspects: Option<usize>,
    refusals: usize,
    /// A request was accepted before.
    began: bool,
}

impl Selection {
    pub(super) fn new(may_be_empty: bool) -> Self {
        let (accepted, refused) = (BTreeSet::new(), BTreeSet::new());
        Self { may_be_empty, accepted, refused, suspects: None, refusals: 0, began: false }
    }

    /// The set of watched resources has changed.
    pub(super) fn turn(&mut self, desired: &BTreeSet<String>) {
        self.accepted.retain(|uri| desired.contains(uri));
        self.refused.retain(|uri| desired.contains(uri));
        (self.suspects, self.refusals) = (None, 0);
    }

    /// The resources of the next request; if they equal the last ones, nothing more can be added.
    pub(super) fn next(&self, desired: &BTreeSet<String>) -> BTreeSet<String> {
        let untried =
            desired.iter().filter(|uri| !self.accepted.contains(*uri) && !self.refused.contains(*uri));
        // First find out whether the server accepts a request at all.
        let asks_for_none = self.refusals > 0 && !self.began && self.may_be_empty;
        let step = match self.suspects {
            _ if asks_for_none || self.refusals >= MAX_REFUSALS => 0,
            Some(suspects) => suspects.div_ceil(2),
            None => usize::MAX,
        };
        self.accepted.iter().chain(untried.take(step)).cloned().collect()
    }

    pub(super) fn accepted(&mut self, requested: &BTreeSet<String>) {
        let more = requested.difference(&self.accepted).count();
        self.suspects = self.suspects.map(|suspects| suspects.saturating_sub(more)).filter(|left| *left > 0);
        self.accepted.clone_from(requested);
        self.began = true;
    }

    /// Returns false if nothing is left to request, because the server refused even an empty request.
    pub(super) fn refused(&mut self, requested: &BTreeSet<String>) -> bool {
        if requested.is_empty() {
            return false;
        }
        self.refusals += 1;
        let mut new: BTreeSet<_> = requested.difference(&self.accepted).cloned().collect();
        if new.is_empty() {
            // The server accepted these before.
            new = std::mem::take(&mut self.accepted);
        }
        self.suspects = (new.len() > 1).then_some(new.len());
        if self.suspects.is_none() {
            self.refused.append(&mut new);
        }
        true
    }
}

#[cfg(test)]
mod tests;
