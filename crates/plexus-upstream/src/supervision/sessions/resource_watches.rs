//! Resources of one server that somebody wants to hear of. Whoever attends the server tells it which these are.
//!
//! What has changed is put into the mailbox of each who wants to hear of it, once however often it is said. So a server that
//! says more than anybody can read costs nobody anything, and what it says is lost on nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_mcp::offers::Mailbox;
use tokio::sync::{Notify, watch};

/// Resources of one server that are watched at the same time; one more is not.
const MAX: usize = 8_192;
/// Of these, how often one owner may watch one, so that nobody takes the room of all others.
const PER_OWNER: usize = 512;
/// For a server to be told of a resource that somebody wants to hear of from now on.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(in crate::supervision) struct Watches {
    watched: Mutex<Watched>,
    /// Others are watched than before; any number of times is once.
    pub(in crate::supervision) changed: Notify,
    /// Grows with every change.
    turn: AtomicU64,
    /// The turn that the server has been told of.
    heeded: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Watched {
    /// By those who watch it.
    uris: BTreeMap<String, Vec<Subscriber>>,
    /// How many each owner has.
    owners: BTreeMap<String, usize>,
}

/// Who hears of a resource, and by what name.
#[derive(Debug)]
struct Subscriber {
    mailbox: Arc<Mailbox>,
    known_as: String,
}

impl Watches {
    /// Watches a resource for as long as this is held; its changes are put into the mailbox by the name that its owner
    /// has for it. None: too many are watched, by all or by this owner.
    pub(in crate::supervision) fn hold(
        self: &Arc<Self>,
        uri: &str,
        owner: &str,
        mailbox: &Arc<Mailbox>,
        known_as: &str,
    ) -> Option<ResourceWatchGuard> {
        let mut watched = self.lock();
        let Watched { uris, owners } = &mut *watched;
        let theirs = owners.get(owner).copied().unwrap_or(0);
        if theirs >= PER_OWNER || (uris.len() >= MAX && !uris.contains_key(uri)) {
            return None;
        }
        owners.insert(owner.to_owned(), theirs + 1);
        let subscribers = uris.entry(uri.to_owned()).or_default();
        subscribers.push(Subscriber { mailbox: mailbox.clone(), known_as: known_as.to_owned() });
        if subscribers.len() == 1 {
            self.turn.fetch_add(1, Ordering::AcqRel);
            self.changed.notify_one();
        }
        Some(ResourceWatchGuard {
            watches: self.clone(),
            uri: uri.to_owned(),
            owner: owner.to_owned(),
            mailbox: mailbox.clone(),
            known_as: known_as.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A resource has changed. Costs nothing where nobody wants to hear of it.
    pub(in crate::supervision) fn tell(&self, uri: &str) {
        for Subscriber { mailbox, known_as } in self.lock().uris.get(uri).into_iter().flatten() {
            mailbox.put(known_as);
        }
    }

    /// How often it has changed what is watched.
    pub(in crate::supervision) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// The server has been told what was watched at this turn, or could not be.
    pub(in crate::supervision) fn heed(&self, turn: u64) {
        self.heeded.send_modify(|heeded| *heeded = turn.max(*heeded));
    }

    /// Returns when the server has been told of all that is watched by now, or has taken too long.
    pub(in crate::supervision) async fn heeded(&self) {
        let (turn, mut heeded) = (self.turn(), self.heeded.subscribe());
        // The sender is our own: it cannot be gone.
        let _ = tokio::time::timeout(PATIENCE, heeded.wait_for(|heeded| *heeded >= turn)).await;
    }

    /// Nobody wants to hear of anything.
    pub(in crate::supervision) fn is_empty(&self) -> bool {
        self.lock().uris.is_empty()
    }

    /// All that are watched.
    pub(in crate::supervision) fn uris(&self) -> BTreeSet<String> {
        self.lock().uris.keys().cloned().collect()
    }
}

/// Somebody's interest in a resource; it ends when this is dropped.
#[derive(Debug)]
pub(in crate::supervision) struct ResourceWatchGuard {
    watches: Arc<Watches>,
    uri: String,
    owner: String,
    mailbox: Arc<Mailbox>,
    known_as: String,
}

impl ResourceWatchGuard {
    fn is_mine(&self, subscriber: &Subscriber) -> bool {
        Arc::ptr_eq(&subscriber.mailbox, &self.mailbox) && subscriber.known_as == self.known_as
    }
}

impl Drop for ResourceWatchGuard {
    fn drop(&mut self) {
        let mut watched = self.watches.lock();
        let Watched { uris, owners } = &mut *watched;
        if let Some(theirs) = owners.get_mut(&self.owner) {
            *theirs -= 1;
            if *theirs == 0 {
                owners.remove(&self.owner);
            }
        }
        let Some(subscribers) = uris.get_mut(&self.uri) else { return };
        if let Some(mine) = subscribers.iter().position(|subscriber| self.is_mine(subscriber)) {
            subscribers.swap_remove(mine);
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

    use super::{MAX, PER_OWNER, Watches};

    #[test]
    fn a_resource_is_watched_for_as_long_as_anybody_wants_it() {
        let watches = Arc::<Watches>::default();
        let changed = || watches.changed.notified().now_or_never().is_some();
        let mailbox = Arc::<Mailbox>::default();
        let hold = |known_as: &str| watches.hold("a://1", "ann", &mailbox, known_as);
        let (first, second) = (hold("one"), hold("two"));
        assert!(changed() && !changed(), "the server is told once");
        drop(first);
        assert!(!changed() && watches.uris().contains("a://1"));
        drop(second);
        assert!(changed() && watches.uris().is_empty());
    }

    #[test]
    fn only_so_many_are_watched() {
        let watches = Arc::<Watches>::default();
        let mailbox = Arc::<Mailbox>::default();
        let hold = |uri: &str, owner: &str| watches.hold(uri, owner, &mailbox, uri);
        let held: Vec<_> =
            (0..MAX).map(|n| hold(&format!("a://{n}"), &format!("agent:{}", n / PER_OWNER))).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(hold("a://one-more", "ann").is_none());
        assert!(hold("a://1", "ann").is_some(), "that one is watched anyway");
    }

    #[test]
    fn nobody_watches_so_many_that_others_cannot() {
        let watches = Arc::<Watches>::default();
        let mailbox = Arc::<Mailbox>::default();
        let hold = |uri: &str, owner: &str| watches.hold(uri, owner, &mailbox, uri);
        let mut held: Vec<_> = (0..PER_OWNER).map(|n| hold(&format!("a://{n}"), "ann").unwrap()).collect();
        assert!(hold("a://one-more", "ann").is_none());
        assert!(hold("a://one-more", "bob").is_some());
        held.pop();
        assert!(hold("a://one-more", "ann").is_some(), "there is room again");
    }

    #[test]
    fn a_change_is_kept_once_for_each_who_wants_to_hear_of_it() {
        let (watches, ann, bob) =
            (Arc::<Watches>::default(), Arc::<Mailbox>::default(), Arc::<Mailbox>::default());
        let _anns = watches.hold("a://1", "ann", &ann, "hers");
        let bobs = watches.hold("a://1", "bob", &bob, "his");
        for _ in 0..1_000 {
            watches.tell("a://1");
            watches.tell("a://2");
        }
        let taken =
            |mailbox: &Mailbox| mailbox.take().now_or_never().map(|all| all.into_iter().collect::<Vec<_>>());
        assert_eq!(taken(&ann), Some(vec!["hers".to_owned()]));
        assert_eq!(taken(&ann), None, "it was told");
        drop(bobs);
        watches.tell("a://1");
        assert_eq!(taken(&bob), Some(vec!["his".to_owned()]), "what had changed before");
        assert_eq!(taken(&bob), None, "and nothing after");
        assert_eq!(taken(&ann), Some(vec!["hers".to_owned()]));
    }
}
