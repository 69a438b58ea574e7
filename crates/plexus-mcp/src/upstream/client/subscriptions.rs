//! The resources that somebody wants to hear of, and whether the server has taken note.
//!
//! In the stateless era a request to listen names all of them, and is made anew when they change; in a session each is
//! subscribed to on its own.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// For a server to begin with what it was asked for anew; what it did before goes on until then.
pub(super) const TAKING_NOTE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// Grows with every change.
    pub(super) turn: u64,
    pub(super) uris: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Subscriptions {
    wanted: watch::Sender<Wanted>,
    heeded: watch::Sender<u64>,
    /// What a session has subscribed to.
    subscribed: Mutex<BTreeSet<String>>,
}

/// What a session has to say about it.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) more: Vec<String>,
    pub(super) fewer: Vec<String>,
}

impl Subscriptions {
    pub(super) fn new() -> Self {
        Self {
            wanted: watch::Sender::default(),
            heeded: watch::Sender::default(),
            subscribed: Mutex::default(),
        }
    }

    pub(super) fn wanted(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    /// Whoever listens has told the server what was wanted at this turn, or never will.
    pub(super) fn heed(&self, turn: u64) {
        self.heeded.send_modify(|heeded| *heeded = turn.max(*heeded));
    }

    /// From now on these; returns when the server has taken note, or has taken too long.
    pub(super) async fn want(&self, uris: BTreeSet<String>) {
        let turn = {
            let mut turn = 0;
            self.wanted.send_if_modified(|wanted| {
                let changed = wanted.uris != uris;
                if changed {
                    *wanted = Wanted { turn: wanted.turn + 1, uris };
                }
                turn = wanted.turn;
                changed
            });
            turn
        };
        let mut heeded = self.heeded.subscribe();
        // The sender is our own: it cannot be gone.
        let _ = tokio::time::timeout(TAKING_NOTE, heeded.wait_for(|heeded| *heeded >= turn)).await;
    }

    /// Between what a session is subscribed to and what is wanted.
    pub(super) fn difference(&self, wanted: &BTreeSet<String>) -> Difference {
        let subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        Difference {
            more: wanted.difference(&subscribed).cloned().collect(),
            fewer: subscribed.difference(wanted).cloned().collect(),
        }
    }

    pub(super) fn subscribed(&self, uri: String, is: bool) {
        let mut subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        if is {
            subscribed.insert(uri);
        } else {
            subscribed.remove(&uri);
        }
    }

    /// All that somebody wants to hear of.
    pub(super) fn watched(&self) -> BTreeSet<String> {
        let mut watched = self.wanted.borrow().uris.clone();
        watched.extend(self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        watched
    }

    /// The session is another one, which knows of nothing.
    pub(super) fn forget(&self) {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
