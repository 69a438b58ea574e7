//! The outbox of a proxy: writes that the hub could not take, until it has.
//!
//! One file for each identity of a proxy, which several processes share. What always holds:
//!
//! - **Accepted is on disk.** [`Outbox::enqueue`] returns after the row has been synced. What it refused is not there.
//! - **A key is one row.** The same key again gives the row that is there; with other content it is an error.
//! - **Order within a session.** Only the oldest row of a session that is not settled can be claimed, so no two of a session are
//!   ever under way. A dead letter is out of the queue: what is behind it moves on.
//! - **A claim is one statement**, so of two processes one gets the row. It lasts for a lease and has an epoch: who comes
//!   back after its lease was taken over can neither settle nor postpone nor bury what is another's now.
//! - **A row ends once**: settled rows are deleted, the others become dead letters, which stay until a person retries or drops
//!   them. A dead letter knows whether the hub and the agent were told of it.
//! - **Nothing old is sent by itself.** A hub remembers keys for seven days. A row that waited longer than [`Limits::age`] becomes a
//!   dead letter, because the hub could take it for a new one.
//! - **Bounded** by rows and bytes, dead letters included. Full means refused; nothing is thrown away to make room.
//! - **A clock that jumps parks nothing.** No pause and no lease is longer than [`LONGEST_PAUSE`] and [`LONGEST_LEASE`]; what ends later
//!   than that from now was written under another time, and counts as over.
//! - **Every statement stands alone**: a caller who stops waiting leaves no transaction behind.
//! - **Damage is not the end.** Each row has a sum. A file that SQLite or a sum finds damaged is moved aside and what is readable
//!   goes on in a new one, also while the outbox is in use; see `opening` and `pages`. A log that was cut off at its end is not
//!   damage: it looks like a write that was never finished.
//!
//! There is one connection, with a small cache. SQLite in WAL mode, with `synchronous = FULL` for what is accepted and for dead
//! letters. Claims and what is settled are not synced: after a power cut a write may be sent once more, which the hub knows by its
//! key, and so a queue drains at the speed of the hub and not of the disk. The file is 0600 in a folder of 0700.

mod error;
mod files;
mod letters;
mod opening;
mod pages;
mod place;
mod queue;
mod row;
mod schema;
mod verdict;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_kit::Clock;
use plexus_kit::backoff::{self, Jitter};
use plexus_proto::Timestamp;
use tokio::sync::{Mutex, Notify};

pub use error::OutboxError;
pub use files::{Files, LocalFiles};
pub use letters::{Dropped, Told};
pub use queue::{Claimed, NewWrite, Queued};
pub use verdict::{Answer, Verdict, judge, retry_after};
pub use write::{Which, Write, WriteState};

use self::error::{Trouble, told, trouble};
use self::place::Place;
use crate::{Conn, StoreError};

/// The longest that a row is postponed, whatever a server asks for.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// The longest lease.
pub const LONGEST_LEASE: Duration = Duration::from_secs(5 * 60);

const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Of pauses that nobody asked for.
const LONGEST_OWN_PAUSE: Duration = Duration::from_secs(60);

/// How much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows, dead letters included.
    pub rows: u64,
    /// Bytes of what was accepted, dead letters included.
    pub bytes: u64,
    /// What waited longer becomes a dead letter.
    pub age: Duration,
}

impl Default for Limits {
    /// An hour less than the seven days for which a hub remembers keys: what is sent last still finds its key there.
    fn default() -> Self {
        Self { rows: 20_000, bytes: 64 << 20, age: Duration::from_secs((7 * 24 - 1) * 60 * 60) }
    }
}

/// What is in an outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub pending: u64,
    pub dead: u64,
    /// Of both.
    pub bytes: u64,
    /// When the oldest that waits was queued.
    pub oldest: Option<Timestamp>,
}

/// A damaged file that was put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Where the damaged file is now.
    pub moved_to: PathBuf,
    /// Waiting writes and dead letters that were recovered. None: another process did, and was stopped before it could tell.
    pub rows: Option<u64>,
}

/// How opening went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// The file was damaged.
    pub recovered: Option<Recovery>,
}

/// Cheap to clone; all clones share one connection.
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

struct Inner {
    place: Place,
    clock: Clock,
    limits: Limits,
    file: Mutex<Option<Current>>,
    queued: Notify,
    recovered: std::sync::Mutex<Option<Recovery>>,
}

/// The connection, and which file it is to.
struct Current {
    conn: Conn,
    identity: Option<(u64, u64)>,
    synced: Synced,
}

/// When what was written is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synced {
    /// Before it is answered.
    AtOnce,
    /// With the next that is: for what a power cut may undo, because it is then done once more.
    Later,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("path", &self.0.place.path).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Opens the file, which is made where it is missing, and checks it.
    pub async fn open(path: &Path, clock: Clock, limits: Limits) -> Result<(Self, Opened), OutboxError> {
        Self::open_with(path, clock, limits, Arc::new(LocalFiles)).await
    }

    /// The same with files of the caller's.
    pub async fn open_with(
        path: &Path,
        clock: Clock,
        limits: Limits,
        files: Arc<dyn Files>,
    ) -> Result<(Self, Opened), OutboxError> {
        let place = Place::new(path, files)?;
        let (conn, recovered) = opening::open(&place, &clock).await?;
        let current = Current { conn, identity: place.identity(), synced: Synced::AtOnce };
        let inner = Inner {
            place,
            clock,
            limits,
            file: Mutex::new(Some(current)),
            queued: Notify::new(),
            recovered: std::sync::Mutex::default(),
        };
        Ok((Self(Arc::new(inner)), Opened { recovered }))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.place.path
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Closes the file, after which an operation opens it again. The last to close it folds the log into it.
    pub async fn close(&self) -> Result<(), OutboxError> {
        let current = self.0.file.lock().await.take();
        let Some(current) = current else { return Ok(()) };
        current.conn.close().await.map_err(|error| told(self.path(), error))
    }

    /// What was recovered since the last time this was asked, beside what opening told.
    #[must_use]
    pub fn take_recovery(&self) -> Option<Recovery> {
        self.0.recovered.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns when a row was queued or retried through this value or a clone of it since the last call. Another process does
    /// not wake anybody: who sleeps here also looks now and then.
    pub async fn woken(&self) {
        self.0.queued.notified().await;
    }

    fn wake(&self) {
        self.0.queued.notify_one();
    }

    fn now(&self) -> i64 {
        self.0.clock.now().as_millisecond()
    }

    /// Runs `work` on the connection; what it writes is on the disk when this returns.
    async fn run<T, W>(&self, work: W) -> Result<T, OutboxError>
    where
        W: for<'c> Fn(&'c mut Conn) -> BoxFuture<'c, Result<T, StoreError>>,
    {
        self.run_synced(Synced::AtOnce, work).await
    }

    /// The same for what may be on the disk later; once more where the file had to be put in order first.
    async fn run_synced<T, W>(&self, synced: Synced, work: W) -> Result<T, OutboxError>
    where
        W: for<'c> Fn(&'c mut Conn) -> BoxFuture<'c, Result<T, StoreError>>,
    {
        let Inner { place, clock, file, recovered, .. } = &*self.0;
        let mut file = file.lock().await;
        let mut again = true;
        loop {
            // Together with others who work on the file: while this is held, nobody moves it.
            let shared = place.shared().await?;
            let Some(current) = file.as_mut().filter(|current| current.identity == place.identity()) else {
                drop(shared);
                if let Some(moved) = file.take() {
                    let _ = moved.conn.close().await;
                }
                let (conn, recovery) = opening::open(place, clock).await?;
                *file = Some(Current { conn, identity: place.identity(), synced: Synced::AtOnce });
                if let Some(recovery) = recovery {
                    *recovered.lock().unwrap_or_else(PoisonError::into_inner) = Some(recovery);
                }
                continue;
            };
            let done = match current.sync(synced).await {
                Ok(()) => work(&mut current.conn).await,
                Err(error) => Err(error),
            };
            let error = match done {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            drop(shared);
            match trouble(&error) {
                // Opened anew it is checked, and put in order.
                Trouble::Damaged if again => {
                    again = false;
                    current.identity = None;
                }
                Trouble::Other => {
                    current.identity = None;
                    return Err(told(&place.path, error));
                }
                _ => return Err(told(&place.path, error)),
            }
        }
    }
}

impl Current {
    async fn sync(&mut self, synced: Synced) -> Result<(), StoreError> {
        if self.synced == synced {
            return Ok(());
        }
        let sql = match synced {
            Synced::AtOnce => "PRAGMA synchronous = FULL",
            Synced::Later => "PRAGMA synchronous = NORMAL",
        };
        self.conn.execute("choosing when the outbox is synced", sql, vec![]).await?;
        self.synced = synced;
        Ok(())
    }
}

/// How long to wait after the attempt of this number failed, the first being 1.
#[must_use]
pub fn pause(attempts: u32, jitter: &Jitter) -> Duration {
    jitter.shorten(backoff::doubled(FIRST_PAUSE, attempts.saturating_sub(1), LONGEST_OWN_PAUSE))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
