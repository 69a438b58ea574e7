//! Locks on the idempotency keys of running calls, in this process.
//!
//! A second call with the key of a running call waits for the result of the first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

type KeyMap = HashMap<(String, String), watch::Receiver<()>>;

/// The idempotency keys whose first call is still running.
#[derive(Debug, Default)]
pub(super) struct KeyLocks {
    keys: Arc<Mutex<KeyMap>>,
    /// The number of calls that wait for another call to end.
    waiting: AtomicUsize,
}

/// Counts one waiting call until dropped, so an abandoned call is no longer counted.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl<'a> WaitingGuard<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KeyLocks {
    /// Waits until no other call holds the key, then locks it until the guard is dropped.
    pub(super) async fn lock(&self, subject: &str, key: &str) -> KeyLock {
        let id = (subject.to_owned(), key.to_owned());
        loop {
            let mut busy = {
                let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
                match keys.get(&id) {
                    Some(busy) => busy.clone(),
                    None => {
                        let (done, busy) = watch::channel(());
                        keys.insert(id.clone(), busy);
                        return KeyLock { id, keys: self.keys.clone(), _done: done };
                    }
                }
            };
            let _waits = WaitingGuard::new(&self.waiting);
            // Fails when the holder drops its sender; then this call tries to take the lock.
            while busy.changed().await.is_ok() {}
        }
    }

    /// The number of calls that wait for another call with the same key.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A locked key; unlocked on drop.
#[derive(Debug)]
pub(super) struct KeyLock {
    id: (String, String),
    keys: Arc<Mutex<KeyMap>>,
    _done: watch::Sender<()>,
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
