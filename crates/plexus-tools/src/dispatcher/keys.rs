//! Idempotency keys of calls that run now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

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
