//! Idempotency keys of calls that run now.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

type KeyMap = HashMap<(String, String), watch::Receiver<()>>;

/// Idempotency keys whose first call still runs.
#[derive(Debug, Default)]
pub(super) struct Keys {
    held: Arc<Mutex<KeyMap>>,
    /// Calls that wait for another one to end.
    waiting: AtomicUsize,
}

/// Counts as long as it is kept, so that a call that is given up counts no longer.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Keys {
    /// Waits until no other call holds the key, then holds it until dropped.
    pub(super) async fn hold(&self, subject: &str, key: &str) -> Held {
        let id = (subject.to_owned(), key.to_owned());
        loop {
            let mut busy = {
                let mut keys = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                match keys.get(&id) {
                    Some(busy) => busy.clone(),
                    None => {
                        let (done, busy) = watch::channel(());
                        keys.insert(id.clone(), busy);
                        return Held { id, keys: self.held.clone(), _done: done };
                    }
                }
            };
            let _waits = Waits::new(&self.waiting);
            // Ends with an error when the holder drops its end: then it is our turn to try.
            while busy.changed().await.is_ok() {}
        }
    }

    /// Calls that wait for another one with their key.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
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
