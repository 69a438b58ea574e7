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
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use plexus_mcp::offers::Mailbox;

    use super::{MAX_PER_OWNER, MAX_WATCHED, Watches};

    #[test]
    fn resource_is_watched_until_the_last_subscriber_leaves() {
        let watches = Arc::<Watches>::default();
        let changed = || watches.changed.notified().now_or_never().is_some();
        let mailbox = Arc::<Mailbox>::default();
        let watch = |client_uri: &str| watches.watch("a://1", "ann", &mailbox, client_uri);
        let (first, second) = (watch("one"), watch("two"));
        assert!(changed() && !changed(), "the server is notified once");
        drop(first);
        assert!(!changed() && watches.uris().contains("a://1"));
        drop(second);
        assert!(changed() && watches.uris().is_empty());
    }

    #[test]
    fn number_of_watched_resources_is_limited() {
        let watches = Arc::<Watches>::default();
        let mailbox = Arc::<Mailbox>::default();
        let watch = |uri: &str, owner: &str| watches.watch(uri, owner, &mailbox, uri);
        let guards: Vec<_> = (0..MAX_WATCHED)
            .map(|n| watch(&format!("a://{n}"), &format!("agent:{}", n / MAX_PER_OWNER)))
            .collect();
        assert!(guards.iter().all(Option::is_some));
        assert!(watch("a://one-more", "ann").is_none());
        assert!(watch("a://1", "ann").is_some(), "an additional subscriber needs no room");
    }

    #[test]
    fn watches_per_owner_are_limited() {
        let watches = Arc::<Watches>::default();
        let mailbox = Arc::<Mailbox>::default();
        let watch = |uri: &str, owner: &str| watches.watch(uri, owner, &mailbox, uri);
        let mut guards: Vec<_> =
            (0..MAX_PER_OWNER).map(|n| watch(&format!("a://{n}"), "ann").unwrap()).collect();
        assert!(watch("a://one-more", "ann").is_none());
        assert!(watch("a://one-more", "bob").is_some());
        guards.pop();
        assert!(watch("a://one-more", "ann").is_some(), "there is room again");
    }

    #[test]
    fn change_is_queued_once_per_subscriber() {
        let (watches, ann, bob) =
            (Arc::<Watches>::default(), Arc::<Mailbox>::default(), Arc::<Mailbox>::default());
        let _anns = watches.watch("a://1", "ann", &ann, "hers");
        let bobs = watches.watch("a://1", "bob", &bob, "his");
        for _ in 0..1_000 {
            watches.notify("a://1");
            watches.notify("a://2");
        }
        let drain =
            |mailbox: &Mailbox| mailbox.take().now_or_never().map(|all| all.into_iter().collect::<Vec<_>>());
        assert_eq!(drain(&ann), Some(vec!["hers".to_owned()]));
        assert_eq!(drain(&ann), None, "it was delivered once");
        drop(bobs);
        watches.notify("a://1");
        assert_eq!(drain(&bob), Some(vec!["his".to_owned()]), "the change before the drop");
        assert_eq!(drain(&bob), None, "and nothing after");
        assert_eq!(drain(&ann), Some(vec!["hers".to_owned()]));
    }
}
