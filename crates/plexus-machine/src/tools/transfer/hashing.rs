//! File hashes, including those that take longer than a call: the caller receives the progress and asks again.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use plexus_kit::hex;
use tokio::sync::watch;

/// How long one call waits for a hash.
const HASH_WAIT: Duration = Duration::from_secs(10);
/// The maximum number of hashes in progress or cached; beyond it, completed ones are dropped.
const MAX_HASHES: usize = 64;
const BLOCK: usize = 1 << 20;

/// Cheap to clone; all clones share the same hashes.
#[derive(Debug, Clone, Default)]
pub(super) struct Hashes(Arc<Mutex<HashMap<String, Arc<Hashing>>>>);

#[derive(Debug)]
struct Hashing {
    done: watch::Sender<Option<Result<String, String>>>,
    looked_at: AtomicU64,
}

/// The progress of a hash.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Done(String),
    /// The number of bytes hashed so far.
    Going(u64),
    /// Too many hashes are in progress.
    Busy,
}

impl Hashes {
    /// The hash of the file with this key, which identifies its content.
    pub(super) async fn of(
        &self,
        key: &str,
        file: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Progress> {
        let cached = self.cached(key);
        let hashing = match cached {
            Some(hashing) => hashing,
            None => match self.begin(key, file()?) {
                Some(hashing) => hashing,
                None => return Ok(Progress::Busy),
            },
        };
        let mut done = hashing.done.subscribe();
        let waited = tokio::time::timeout(HASH_WAIT, done.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(done)) => match done.as_ref() {
                Some(Ok(hash)) => Ok(Progress::Done(hash.clone())),
                Some(Err(error)) => {
                    self.forget(key);
                    Err(io::Error::other(error.clone()))
                }
                None => Ok(Progress::Going(0)),
            },
            Ok(Err(_)) | Err(_) => Ok(Progress::Going(hashing.looked_at.load(Ordering::Relaxed))),
        }
    }

    pub(super) fn forget(&self, key: &str) {
        self.all().remove(key);
    }

    fn cached(&self, key: &str) -> Option<Arc<Hashing>> {
        self.all().get(key).cloned()
    }

    fn begin(&self, key: &str, file: File) -> Option<Arc<Hashing>> {
        let hashing = Arc::new(Hashing { done: watch::Sender::new(None), looked_at: AtomicU64::new(0) });
        {
            let mut all = self.all();
            if all.len() >= MAX_HASHES {
                all.retain(|_, hashing| hashing.done.borrow().is_none());
            }
            if all.len() >= MAX_HASHES {
                return None;
            }
            all.insert(key.to_owned(), hashing.clone());
        }
        let making = hashing.clone();
        // Not awaited here: it ends by itself, and callers wait for its result.
        drop(tokio::task::spawn_blocking(move || {
            let hash = hash(&file, &making.looked_at).map_err(|error| error.to_string());
            making.done.send_replace(Some(hash));
        }));
        Some(hashing)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Hashing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(file: &File, looked_at: &AtomicU64) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut block = vec![0; BLOCK];
    let mut offset = 0;
    loop {
        let read = match file.read_at(&mut block, offset) {
            Ok(0) => return Ok(hex::encode(context.finish().as_ref())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        context.update(&block[..read]);
        offset += read as u64;
        looked_at.store(offset, Ordering::Relaxed);
    }
}
