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
mod tests {
    use super::*;

    fn uris(all: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
        all.into_iter().map(|number| format!("a://{number:03}")).collect()
    }

    /// Runs the selection against a server that refuses some requests; returns the final selection and the
    /// number of requests.
    fn settled(
        selection: &mut Selection,
        desired: &BTreeSet<String>,
        refuses: impl Fn(&BTreeSet<String>) -> bool,
    ) -> (Option<BTreeSet<String>>, usize) {
        let mut listening = None;
        for requests in 0..100 {
            let requested = selection.next(desired);
            if listening.as_ref() == Some(&requested) || (requested.is_empty() && !selection.may_be_empty) {
                return (Some(requested), requests);
            }
            if !refuses(&requested) {
                selection.accepted(&requested);
                listening = Some(requested);
            } else if !selection.refused(&requested) {
                return (None, requests + 1);
            }
        }
        panic!("no end: {selection:?}");
    }

    #[test]
    fn accepted_resources_need_one_request() {
        let (mut selection, desired) = (Selection::new(true), uris(0..100));
        assert_eq!(settled(&mut selection, &desired, |_| false), (Some(desired), 1));
    }

    #[test]
    fn refused_resource_does_not_affect_others() {
        for may_be_empty in [true, false] {
            let mut selection = Selection::new(may_be_empty);
            let bad = uris([42]);
            let refuses = |requested: &BTreeSet<String>| !requested.is_disjoint(&bad);
            let (accepted_uris, requests) = settled(&mut selection, &uris(0..100), refuses);
            assert_eq!(accepted_uris, Some(&uris(0..100) - &bad));
            assert!(requests <= 12, "{requests}");
            // The refused URI is not requested again as long as it is watched.
            selection.turn(&uris(0..101));
            assert_eq!(settled(&mut selection, &uris(0..101), refuses), (Some(&uris(0..101) - &bad), 1));
            selection.turn(&uris(0..3));
            assert_eq!(settled(&mut selection, &uris(0..3), refuses), (Some(uris(0..3)), 1));
        }
    }

    #[test]
    fn long_list_is_reduced_to_what_the_server_accepts() {
        let mut selection = Selection::new(true);
        let (accepted_uris, _) = settled(&mut selection, &uris(0..100), |requested| requested.len() > 70);
        assert!(accepted_uris.is_some_and(|accepted_uris| (60..=70).contains(&accepted_uris.len())));
    }

    #[test]
    fn server_that_refuses_everything_is_given_up() {
        assert_eq!(settled(&mut Selection::new(true), &uris(0..100), |_| true), (None, 2));
        let (accepted_uris, requests) = settled(&mut Selection::new(false), &uris(0..100), |_| true);
        assert_eq!(accepted_uris, Some(uris([])));
        assert!(requests <= MAX_REFUSALS, "{requests}");
    }

    #[test]
    fn accepted_resource_may_be_refused_later() {
        let (mut selection, desired) = (Selection::new(true), uris(0..10));
        settled(&mut selection, &desired, |_| false);
        let bad = uris([3]);
        assert!(selection.refused(&desired));
        let (accepted_uris, _) = settled(&mut selection, &desired, |requested| !requested.is_disjoint(&bad));
        assert_eq!(accepted_uris, Some(&desired - &bad));
    }
}
