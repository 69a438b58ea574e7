//! Subscriptions to resources of one server. The server's monitor forwards them to the server.
//!
//! A change is put into the mailbox of each subscriber at most once until it is read. A server that reports
//! changes excessively therefore costs little, and no change is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_mcp::offers::Mailbox;
use tokio::sync::{Notify, watch};

/// Limit of watched resources of one server.
const MAX_WATCHED: usize = 8_192;
/// Limit of watches per owner, so that nobody can use up the room of all others.
const MAX_PER_OWNER: usize = 512;
/// How long to wait for the server to apply a new subscription.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(in crate::supervision) struct Watches {
    watched: Mutex<WatchTable>,
    /// Notified when the set of watched resources changes.
    pub(in crate::supervision) changed: Notify,
    /// Increases with every change of the set.
    turn: AtomicU64,
    /// The turn that the server has applied.
    acknowledged: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct WatchTable {
    /// Subscribers by URI.
    uris: BTreeMap<String, Vec<Subscriber>>,
    /// Number of watches by owner.
    owners: BTreeMap<String, usize>,
}

/// A subscriber of a resource, and the name it uses for the resource.
#[derive(Debug)]
struct Subscriber {
    mailbox: Arc<Mailbox>,
    client_uri: String,
}

impl Watches {
    /// Watches a resource until the guard is dropped; changes are put into the mailbox under the owner's name
    /// for the resource. None if the limit of the server or of the owner is reached.
    pub(in crate::supervision) fn watch(
        self: &Arc<Self>,
        uri: &str,
        owner: &str,
        mailbox: &Arc<Mailbox>,
        client_uri: &str,
    ) -> Option<ResourceWatchGuard> {
        let mut watched = self.lock();
        let WatchTable { uris, owners } = &mut *watched;
        let count = owners.get(owner).copied().unwrap_or(0);
        if count >= MAX_PER_OWNER || (uris.len() >= MAX_WATCHED && !uris.contains_key(uri)) {
            return None;
        }
        owners.insert(owner.to_owned(), count + 1);
        let subscribers = uris.entry(uri.to_owned()).or_default();
        subscribers.push(Subscriber { mailbox: mailbox.clone(), client_uri: client_uri.to_owned() });
        if subscribers.len() == 1 {
            self.turn.fetch_add(1, Ordering::AcqRel);
            self.changed.notify_one();
        }
        Some(ResourceWatchGuard {
            watches: self.clone(),
            uri: uri.to_owned(),
            owner: owner.to_owned(),
            mailbox: mailbox.clone(),
            client_uri: client_uri.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, WatchTable> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a change of a resource to its subscribers.
    pub(in crate::supervision) fn notify(&self, uri: &str) {
        for Subscriber { mailbox, client_uri } in self.lock().uris.get(uri).into_iter().flatten() {
            mailbox.put(client_uri);
        }
    }

    /// The number of changes of the set so far.
    pub(in crate::supervision) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// Records that the server has applied the subscriptions of this turn, or could not apply them.
    pub(in crate::supervision) fn acknowledge(&self, turn: u64) {
        self.acknowledged.send_modify(|acknowledged| *acknowledged = turn.max(*acknowledged));
    }

    /// Waits until the server has applied the current subscriptions, or a timeout.
    pub(in crate::supervision) async fn acknowledged(&self) {
        let (turn, mut acknowledged) = (self.turn(), self.acknowledged.subscribe());
        // The sender belongs to `self`, so it cannot be dropped.
        let _ =
            tokio::time::timeout(ACK_TIMEOUT, acknowledged.wait_for(|acknowledged| *acknowledged >= turn))
                .await;
    }

    /// Whether no resource is watched.
    pub(in crate::supervision) fn is_empty(&self) -> bool {
        self.lock().uris.is_empty()
    }

    /// All watched URIs.
    pub(in crate::supervision) fn uris(&self) -> BTreeSet<String> {
        self.lock().uris.keys().cloned().collect()
    }
}

/// A subscription that ends when dropped.
#[derive(Debug)]
pub(in crate::supervision) struct ResourceWatchGuard {
    watches: Arc<Watches>,
    uri: String,
    owner: String,
    mailbox: Arc<Mailbox>,
    client_uri: String,
}

impl ResourceWatchGuard {
    fn is_own(&self, subscriber: &Subscriber) -> bool {
        Arc::ptr_eq(&subscriber.mailbox, &self.mailbox) && subscriber.client_uri == self.client_uri
    }
}

impl Drop for ResourceWatchGuard {
    fn drop(&mut self) {
        let mut watched = self.watches.lock();
        let WatchTable { uris, owners } = &mut *watched;
        if let Some(count) = owners.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                owners.remove(&self.owner);
            }
        }
        let Some(subscribers) = uris.get_mut(&self.uri) else { return };
        if let Some(index) = subscribers.iter().position(|subscriber| self.is_own(subscriber)) {
            subscribers.swap_remove(index);
        }
        if subscribers.is_empty() {
            uris.remove(&self.uri);
            self.watches.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
