//! The resources that somebody wants to hear of, and whether the server has taken note.
//!
//! In the stateless era a request to listen names all of them, and is made anew when they change; in a session each is
//! subscribed to on its own.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// For a server to begin with what it was asked for anew; what it did before goes on until then.
pub(super) const TAKING_NOTE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub(super) struct WantedResources {
    /// Grows with every change.
    pub(super) turn: u64,
    pub(super) uris: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Subscriptions {
    wanted: watch::Sender<WantedResources>,
    acknowledged: watch::Sender<u64>,
    session: Mutex<OfSession>,
}

#[derive(Debug, Default)]
struct OfSession {
    /// What it has subscribed to.
    subscribed: BTreeSet<String>,
    /// What the one before had, and nobody has listened for since.
    lost: BTreeSet<String>,
}

/// What a session has to say about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) more: Vec<String>,
    pub(super) fewer: Vec<String>,
}

impl Subscriptions {
    pub(super) fn new() -> Self {
        Self {
            wanted: watch::Sender::default(),
            acknowledged: watch::Sender::default(),
            session: Mutex::default(),
        }
    }

    pub(super) fn wanted(&self) -> watch::Receiver<WantedResources> {
        self.wanted.subscribe()
    }

    /// Whoever listens has told the server what was wanted at this turn, or never will.
    pub(super) fn acknowledge(&self, turn: u64) {
        self.acknowledged.send_if_modified(|acknowledged| {
            let is_news = turn > *acknowledged;
            *acknowledged = turn.max(*acknowledged);
            is_news
        });
    }

    /// From now on these; returns when the server has taken note, or has taken too long.
    pub(super) async fn want(&self, uris: BTreeSet<String>) {
        let turn = {
            let mut turn = 0;
            self.wanted.send_if_modified(|wanted| {
                let changed = wanted.uris != uris;
                if changed {
                    *wanted = WantedResources { turn: wanted.turn + 1, uris };
                }
                turn = wanted.turn;
                changed
            });
            turn
        };
        let mut acknowledged = self.acknowledged.subscribe();
        // The sender is our own: it cannot be gone.
        let _ =
            tokio::time::timeout(TAKING_NOTE, acknowledged.wait_for(|acknowledged| *acknowledged >= turn))
                .await;
    }

    fn session(&self) -> MutexGuard<'_, OfSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Between what a session is subscribed to and what is wanted.
    pub(super) fn difference(&self, wanted: &BTreeSet<String>) -> Difference {
        let subscribed = &self.session().subscribed;
        Difference {
            more: wanted.difference(subscribed).cloned().collect(),
            fewer: subscribed.difference(wanted).cloned().collect(),
        }
    }

    /// A session has subscribed to it, or no longer is.
    pub(super) fn subscribed(&self, uri: String, is: bool) {
        let mut session = self.session();
        if is {
            session.subscribed.insert(uri);
        } else {
            session.subscribed.remove(&uri);
        }
    }

    /// Those that nobody listened for since the session is another one, once.
    pub(super) fn take_lost(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.session().lost)
    }

    /// All that somebody wants to hear of.
    pub(super) fn watched(&self) -> BTreeSet<String> {
        let mut watched = self.wanted.borrow().uris.clone();
        watched.extend(self.session().subscribed.iter().cloned());
        watched
    }

    /// The session is another one, which knows of nothing.
    pub(super) fn forget(&self) {
        let OfSession { subscribed, lost } = &mut *self.session();
        lost.append(subscribed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lost_session_had_subscribed_to_is_subscribed_to_again_and_told_once() {
        let subscriptions = Subscriptions::new();
        let wanted = BTreeSet::from(["a://1".to_owned()]);
        subscriptions.subscribed("a://1".to_owned(), true);
        assert_eq!(subscriptions.difference(&wanted), Difference::default());
        assert_eq!(subscriptions.take_lost(), BTreeSet::new());
        subscriptions.forget();
        assert_eq!(subscriptions.difference(&wanted).more, ["a://1"]);
        assert_eq!(subscriptions.take_lost(), wanted);
        assert_eq!(subscriptions.take_lost(), BTreeSet::new());
    }
}
