//! Resources of one server that somebody wants to hear of. Whoever attends the server tells it which these are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// Resources of one server that are watched at the same time; one more is not.
const MAX: usize = 1_024;
/// For a server to be told of a resource that somebody wants to hear of from now on.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Watches {
    /// By how many.
    counts: Mutex<BTreeMap<String, usize>>,
    /// Others are watched than before; any number of times is once.
    pub(super) changed: Notify,
    /// Grows with every change.
    turn: AtomicU64,
    /// The turn that the server has been told of.
    heeded: watch::Sender<u64>,
}

impl Watches {
    /// Watches a resource for as long as this is held. None: too many are.
    pub(super) fn hold(self: &Arc<Self>, uri: &str) -> Option<Watch> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX && !counts.contains_key(uri) {
            return None;
        }
        let count = counts.entry(uri.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            self.turn.fetch_add(1, Ordering::AcqRel);
            self.changed.notify_one();
        }
        Some(Watch { watches: self.clone(), uri: uri.to_owned() })
    }

    pub(super) fn has(&self, uri: &str) -> bool {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).contains_key(uri)
    }

    /// How often it has changed what is watched.
    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    /// The server has been told what was watched at this turn, or could not be.
    pub(super) fn heed(&self, turn: u64) {
        self.heeded.send_modify(|heeded| *heeded = turn.max(*heeded));
    }

    /// Returns when the server has been told of all that is watched by now, or has taken too long.
    pub(super) async fn heeded(&self) {
        let (turn, mut heeded) = (self.turn(), self.heeded.subscribe());
        // The sender is our own: it cannot be gone.
        let _ = tokio::time::timeout(PATIENCE, heeded.wait_for(|heeded| *heeded >= turn)).await;
    }

    /// All that are watched.
    pub(super) fn uris(&self) -> BTreeSet<String> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

/// Somebody's interest in a resource; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watches: Arc<Watches>,
    uri: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut counts = self.watches.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.uri) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                counts.remove(&self.uri);
                self.watches.changed.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::{MAX, Watches};

    #[test]
    fn a_resource_is_watched_for_as_long_as_anybody_wants_it() {
        let watches = Arc::<Watches>::default();
        let changed = || watches.changed.notified().now_or_never().is_some();
        let (first, second) = (watches.hold("a://1"), watches.hold("a://1"));
        assert!(changed() && !changed(), "the server is told once");
        drop(first);
        assert!(!changed() && watches.uris().contains("a://1"));
        drop(second);
        assert!(changed() && watches.uris().is_empty());
    }

    #[test]
    fn only_so_many_are_watched() {
        let watches = Arc::<Watches>::default();
        let held: Vec<_> = (0..MAX).map(|n| watches.hold(&format!("a://{n}"))).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(watches.hold("a://one-more").is_none());
        assert!(watches.hold("a://1").is_some(), "that one is watched anyway");
    }
}
