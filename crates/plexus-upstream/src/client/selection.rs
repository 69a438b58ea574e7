//! Which of the resources that somebody wants to hear of are asked for in one request to listen.
//!
//! A server refuses such a request whole, and does not say for which resource. So that one client's URI makes nobody else
//! deaf, those that it refuses are found by asking for fewer of the new ones, and are left out until nobody wants them.

use std::collections::BTreeSet;

/// Requests that may be refused before what is left is given up, until something else is wanted.
const MAX_REFUSALS: usize = 24;

#[derive(Debug)]
pub(super) struct Selection {
    /// It makes sense to ask for none: the server has other things to say.
    may_be_empty: bool,
    /// Those that the server tells of.
    taken: BTreeSet<String>,
    /// Those that it was asked for one by one, and refused.
    refused: BTreeSet<String>,
    /// Of those that come next, how many were refused together.
    suspects: Option<usize>,
    refusals: usize,
    /// A request was taken.
    began: bool,
}

impl Selection {
    pub(super) fn new(may_be_empty: bool) -> Self {
        let (taken, refused) = (BTreeSet::new(), BTreeSet::new());
        Self { may_be_empty, taken, refused, suspects: None, refusals: 0, began: false }
    }

    /// Others are wanted than before.
    pub(super) fn turn(&mut self, wanted: &BTreeSet<String>) {
        self.taken.retain(|uri| wanted.contains(uri));
        self.refused.retain(|uri| wanted.contains(uri));
        (self.suspects, self.refusals) = (None, 0);
    }

    /// What to ask for next; when that is what was asked for last, there is no more to be had.
    pub(super) fn next(&self, wanted: &BTreeSet<String>) -> BTreeSet<String> {
        let untried = wanted.iter().filter(|uri| !self.taken.contains(*uri) && !self.refused.contains(*uri));
        // First of all, whether it has anything to say.
        let asks_for_none = self.refusals > 0 && !self.began && self.may_be_empty;
        let step = match self.suspects {
            _ if asks_for_none || self.refusals >= MAX_REFUSALS => 0,
            Some(suspects) => suspects.div_ceil(2),
            None => usize::MAX,
        };
        self.taken.iter().chain(untried.take(step)).cloned().collect()
    }

    pub(super) fn taken(&mut self, asked: &BTreeSet<String>) {
        let more = asked.difference(&self.taken).count();
        self.suspects = self.suspects.map(|suspects| suspects.saturating_sub(more)).filter(|left| *left > 0);
        self.taken.clone_from(asked);
        self.began = true;
    }

    /// False: there is nothing left to ask for, as the server refused to tell of anything at all.
    pub(super) fn refused(&mut self, asked: &BTreeSet<String>) -> bool {
        if asked.is_empty() {
            return false;
        }
        self.refusals += 1;
        let mut new: BTreeSet<_> = asked.difference(&self.taken).cloned().collect();
        if new.is_empty() {
            // It took these before.
            new = std::mem::take(&mut self.taken);
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

    /// Asks a server that refuses some; what it tells of in the end, and how often it was asked.
    fn settled(
        selection: &mut Selection,
        wanted: &BTreeSet<String>,
        refuses: impl Fn(&BTreeSet<String>) -> bool,
    ) -> (Option<BTreeSet<String>>, usize) {
        let mut listening = None;
        for requests in 0..100 {
            let asked = selection.next(wanted);
            if listening.as_ref() == Some(&asked) || (asked.is_empty() && !selection.may_be_empty) {
                return (Some(asked), requests);
            }
            if !refuses(&asked) {
                selection.taken(&asked);
                listening = Some(asked);
            } else if !selection.refused(&asked) {
                return (None, requests + 1);
            }
        }
        panic!("no end: {selection:?}");
    }

    #[test]
    fn what_a_server_takes_is_asked_for_at_once() {
        let (mut selection, wanted) = (Selection::new(true), uris(0..100));
        assert_eq!(settled(&mut selection, &wanted, |_| false), (Some(wanted), 1));
    }

    #[test]
    fn one_that_is_refused_takes_no_other_with_it() {
        for may_be_empty in [true, false] {
            let mut selection = Selection::new(may_be_empty);
            let bad = uris([42]);
            let refuses = |asked: &BTreeSet<String>| !asked.is_disjoint(&bad);
            let (told, requests) = settled(&mut selection, &uris(0..100), refuses);
            assert_eq!(told, Some(&uris(0..100) - &bad));
            assert!(requests <= 12, "{requests}");
            // It is not asked for again, as long as it is wanted.
            selection.turn(&uris(0..101));
            assert_eq!(settled(&mut selection, &uris(0..101), refuses), (Some(&uris(0..101) - &bad), 1));
            selection.turn(&uris(0..3));
            assert_eq!(settled(&mut selection, &uris(0..3), refuses), (Some(uris(0..3)), 1));
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_as_long_as_the_server_takes_it() {
        let mut selection = Selection::new(true);
        let (told, _) = settled(&mut selection, &uris(0..100), |asked| asked.len() > 70);
        assert!(told.is_some_and(|told| (60..=70).contains(&told.len())));
    }

    #[test]
    fn a_server_that_refuses_everything_is_soon_left_alone() {
        assert_eq!(settled(&mut Selection::new(true), &uris(0..100), |_| true), (None, 2));
        let (told, requests) = settled(&mut Selection::new(false), &uris(0..100), |_| true);
        assert_eq!(told, Some(uris([])));
        assert!(requests <= MAX_REFUSALS, "{requests}");
    }

    #[test]
    fn what_was_taken_once_may_be_refused_later() {
        let (mut selection, wanted) = (Selection::new(true), uris(0..10));
        settled(&mut selection, &wanted, |_| false);
        let bad = uris([3]);
        assert!(selection.refused(&wanted));
        let (told, _) = settled(&mut selection, &wanted, |asked| !asked.is_disjoint(&bad));
        assert_eq!(told, Some(&wanted - &bad));
    }
}
