//! Resources of one server that somebody wants to hear of. Whoever attends the server tells it which these are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Resources of one server that are watched at the same time; one more is not.
const MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Watches {
    /// By how many.
    counts: Mutex<BTreeMap<String, usize>>,
    /// Others are watched than before; any number of times is once.
    pub(super) changed: Notify,
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
            self.changed.notify_one();
        }
        Some(Watch { watches: self.clone(), uri: uri.to_owned() })
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
