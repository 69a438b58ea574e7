//! Resources that have changed, for one who listens. However often a resource changes, it is in here once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Where the resources are put down that have changed, each once, until their reader comes.
#[derive(Debug, Default)]
pub struct Mailbox {
    changed: Mutex<BTreeSet<String>>,
    news: Notify,
}

impl Mailbox {
    /// Puts down that a resource has changed, by the name that the reader has for it.
    pub fn put(&self, uri: &str) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        if !changed.contains(uri) {
            changed.insert(uri.to_owned());
            self.news.notify_one();
        }
    }

    /// All that have changed since they were last taken, as soon as there are any. It has one reader at a time. Dropped
    /// halfway, it loses nothing.
    pub async fn take(&self) -> BTreeSet<String> {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
            if !changed.is_empty() {
                return changed;
            }
            self.news.notified().await;
        }
    }
}
