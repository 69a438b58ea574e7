//! The watched resources, and whether the server has acknowledged them.
//!
//! In the stateless era one subscription request names all of them and is replaced when they change; in a
//! session each resource has its own subscription.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// Time limit for a server to acknowledge a new subscription; the old one continues until then.
pub(super) const ACK_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub(super) struct DesiredResources {
    /// Increases with every change.
    pub(super) turn: u64,
    pub(super) uris: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Subscriptions {
    desired: watch::Sender<DesiredResources>,
    acknowledged: watch::Sender<u64>,
    session: Mutex<SessionSubscriptions>,
}

#[derive(Debug, Default)]
struct SessionSubscriptions {
    /// Resources that the session is subscribed to.
    subscribed: BTreeSet<String>,
    /// Resources of the previous session that were unwatched since it was lost.
    lost: BTreeSet<String>,
}

/// Subscriptions that a session must add and remove.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) more: Vec<String>,
    pub(super) fewer: Vec<String>,
}

impl Subscriptions {
    pub(super) fn new() -> Self {
        Self {
            desired: watch::Sender::default(),
            acknowledged: watch::Sender::default(),
            session: Mutex::default(),
        }
    }

    pub(super) fn desired(&self) -> watch::Receiver<DesiredResources> {
        self.desired.subscribe()
    }

    /// Records that the server has acknowledged the resources of this turn, or never will.
    pub(super) fn acknowledge(&self, turn: u64) {
        self.acknowledged.send_if_modified(|acknowledged| {
            let is_newer = turn > *acknowledged;
            *acknowledged = turn.max(*acknowledged);
            is_newer
        });
    }

    /// Sets the watched resources; returns when the server has acknowledged them, or after a timeout.
    pub(super) async fn set_desired(&self, uris: BTreeSet<String>) {
        let turn = {
            let mut turn = 0;
            self.desired.send_if_modified(|desired| {
                let changed = desired.uris != uris;
                if changed {
                    *desired = DesiredResources { turn: desired.turn + 1, uris };
                }
                turn = desired.turn;
                changed
            });
            turn
        };
        let mut acknowledged = self.acknowledged.subscribe();
        // The sender belongs to `self`, so it cannot be dropped.
        let _ =
            tokio::time::timeout(ACK_TIMEOUT, acknowledged.wait_for(|acknowledged| *acknowledged >= turn))
                .await;
    }

    fn session(&self) -> MutexGuard<'_, SessionSubscriptions> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The difference between a session's subscriptions and the wanted ones.
    pub(super) fn difference(&self, desired: &BTreeSet<String>) -> Difference {
        let subscribed = &self.session().subscribed;
        Difference {
            more: desired.difference(subscribed).cloned().collect(),
            fewer: subscribed.difference(desired).cloned().collect(),
        }
    }

    /// Records that a session has subscribed to a resource or unsubscribed from it.
    pub(super) fn subscribed(&self, uri: String, is: bool) {
        let mut session = self.session();
        if is {
            session.subscribed.insert(uri);
        } else {
            session.subscribed.remove(&uri);
        }
    }

    /// Takes the resources that were unwatched since the session was replaced.
    pub(super) fn take_lost(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.session().lost)
    }

    /// All watched resources.
    pub(super) fn watched(&self) -> BTreeSet<String> {
        let mut watched = self.desired.borrow().uris.clone();
        watched.extend(self.session().subscribed.iter().cloned());
        watched
    }

    /// Handles a new session, which has no subscriptions.
    pub(super) fn forget(&self) {
        let SessionSubscriptions { subscribed, lost } = &mut *self.session();
        lost.append(subscribed);
    }
}

#[cfg(test)]
mod tests;
