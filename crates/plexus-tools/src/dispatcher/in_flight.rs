//! What runs now: how many calls of whom, and which idempotency keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Counts running calls by subject.
#[derive(Debug)]
pub(super) struct Running {
    limit: usize,
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

impl Running {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, counts: Arc::default() }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn total(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// A place that is free again when dropped; none when the subject has all it may have.
    pub(super) fn enter(&self, subject: &str) -> Option<Place> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(subject.to_owned()).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Place { subject: subject.to_owned(), counts: self.counts.clone() })
    }
}

#[derive(Debug)]
pub(super) struct Place {
    subject: String,
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.subject) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.subject);
            }
        }
    }
}

type KeyMap = HashMap<(String, String), watch::Receiver<()>>;

/// Idempotency keys whose first call still runs.
#[derive(Debug, Default)]
pub(super) struct Keys(Arc<Mutex<KeyMap>>);

impl Keys {
    /// Waits until no other call holds the key, then holds it until dropped.
    pub(super) async fn hold(&self, subject: &str, key: &str) -> Held {
        let id = (subject.to_owned(), key.to_owned());
        loop {
            let mut busy = {
                let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                match keys.get(&id) {
                    Some(busy) => busy.clone(),
                    None => {
                        let (done, busy) = watch::channel(());
                        keys.insert(id.clone(), busy);
                        return Held { id, keys: self.0.clone(), _done: done };
                    }
                }
            };
            // Ends with an error when the holder drops its end: then it is our turn to try.
            while busy.changed().await.is_ok() {}
        }
    }
}

#[derive(Debug)]
pub(super) struct Held {
    id: (String, String),
    keys: Arc<Mutex<KeyMap>>,
    _done: watch::Sender<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
