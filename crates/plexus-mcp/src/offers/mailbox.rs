//! Changed resources, collected for one reader. A resource that changes several times is in the mailbox once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// The set of changed resources that the reader has not taken yet.
#[derive(Debug, Default)]
pub struct Mailbox {
    changed: Mutex<BTreeSet<String>>,
    filled: Notify,
}

impl Mailbox {
    /// Adds a changed resource, by the URI that the reader uses.
    pub fn put(&self, uri: &str) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        if !changed.contains(uri) {
            changed.insert(uri.to_owned());
            self.filled.notify_one();
        }
    }

    /// Waits for changes and takes them all. Only one reader at a time is supported. Cancel-safe.
    pub async fn take(&self) -> BTreeSet<String> {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
            if !changed.is_empty() {
                return changed;
            }
            self.filled.notified().await;
        }
    }
}
