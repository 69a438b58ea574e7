//! The outbox of a proxy: a durable queue of writes that the hub has not accepted yet.
//!
//! One file per proxy identity, shared by several processes. Invariants:
//!
//! - **Accepted means on disk.** [`Outbox::enqueue`] returns after the row has been synced. Rejected writes
//!   are not stored.
//! - **One row per key.** Enqueueing the same key again returns the existing row; with different content it
//!   is an error.
//! - **Order within a session.** Only the oldest unsettled row of a session can be claimed, so at most one
//!   per session is in flight. A dead letter leaves the queue, and the rows behind it move up.
//! - **A claim is a single statement**, so only one of several processes gets the row. It is valid for a
//!   lease and has an epoch: a process whose lease was taken over can no longer decide about the row.
//! - **A row ends once**: settled rows are deleted, and others become dead letters, which stay until a person
//!   retries or drops them. A dead letter records whether the hub and the agent were notified. A row becomes
//!   one by [`Outbox::dead_letter`], if the hub's answer is final ([`judge`]) or the row holds no call, and by
//!   `expire` in `queue`, if it waited too long.
//! - **No automatic delivery of old writes.** A hub forgets keys after [`IdempotencyRecord::RETENTION`]. A row
//!   that waited longer than [`Limits::age`] becomes a dead letter, because the hub could mistake it for a new
//!   write.
//! - **Bounded** in rows and bytes, including dead letters. When full, new writes are rejected; nothing is
//!   discarded.
//! - **Clock jumps do not block rows.** Pauses and leases are limited to [`LONGEST_PAUSE`] and
//!   [`LONGEST_LEASE`]; one that ends later than that from now was written under a different clock, and
//!   counts as over.
//! - **Every statement is independent**: a cancelled caller leaves no transaction behind.
//! - **Damage is recoverable.** Each row has a checksum. A file that SQLite or a checksum reports as damaged
//!   is moved aside, and the readable rows are copied to a new one, even while the outbox is in use; see
//!   `opening` and `pages`. A truncated log is not damage: it is the same as an unfinished write.
//!
//! There is one connection, with a small cache, to SQLite in WAL mode, with `synchronous = FULL` for accepted
//! writes and dead letters. Claims and settlements are not synced: after a power loss a write may be sent
//! again, which the hub detects by its key, so a queue drains at the speed of the hub and not of the disk.
//! The file has mode 0600, its folder 0700.

mod dead_letters;
mod error;
mod files;
mod location;
mod opening;
mod pages;
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

use crate::IdempotencyRecord;

pub use dead_letters::{DeadLetterRecipient, DropOutcome};
pub use error::OutboxError;
pub use files::{Files, LocalFiles};
pub use queue::{ClaimedWrite, EnqueuedWrite, NewWrite};
pub use verdict::{Verdict, WriteAnswer, judge, retry_after};
pub use write::{Write, WriteFilter, WriteState};

use self::error::{FailureKind, failure_kind, outbox_error};
use self::location::OutboxLocation;
use crate::{Conn, StoreError};

/// Maximum time for which a row is postponed, even if a server asks for more.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// Maximum duration of a lease.
pub const LONGEST_LEASE: Duration = Duration::from_secs(5 * 60);

const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum backoff delay without a server's request.
const LONGEST_OWN_PAUSE: Duration = Duration::from_secs(60);

/// Limits of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of rows, including dead letters.
    pub rows: u64,
    /// Size in bytes of accepted writes, including dead letters.
    pub bytes: u64,
    /// Age at which a waiting write becomes a dead letter.
    pub age: Duration,
}

impl Default for Limits {
    /// The age is an hour less than a hub remembers keys, so that the last attempt still finds its key.
    fn default() -> Self {
        Self {
            rows: 20_000,
            bytes: 64 << 20,
            age: IdempotencyRecord::RETENTION.saturating_sub(Duration::from_secs(3600)),
        }
    }
}

/// Content of an outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub pending: u64,
    pub dead: u64,
    /// Of both.
    pub bytes: u64,
    /// When the oldest waiting write was queued.
    pub oldest: Option<Timestamp>,
}

/// The repair of a damaged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// New location of the damaged file.
    pub moved_to: PathBuf,
    /// Number of recovered writes and dead letters. `None` if another process recovered them and was stopped
    /// before reporting.
    pub rows: Option<u64>,
}

/// Result of opening an outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// Set if the file was damaged.
    pub recovered: Option<Recovery>,
}

/// Cheap to clone; all clones share one connection.
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

struct Inner {
    location: OutboxLocation,
    clock: Clock,
    limits: Limits,
    file: Mutex<Option<Current>>,
    queued: Notify,
    recovered: std::sync::Mutex<Option<Recovery>>,
}

/// The connection, and the identity of its file.
struct Current {
    conn: Conn,
    identity: Option<(u64, u64)>,
    synced: Synced,
}

/// When writes reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synced {
    /// Before the operation returns.
    AtOnce,
    /// With the next synced write: for changes that may be lost on power loss, because they are then
    /// repeated.
    Later,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("path", &self.0.location.path).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Opens and checks the file; creates it if it is missing.
    pub async fn open(path: &Path, clock: Clock, limits: Limits) -> Result<(Self, Opened), OutboxError> {
        Self::open_with(path, clock, limits, Arc::new(LocalFiles)).await
    }

    /// As [`Self::open`], with the given file operations.
    pub async fn open_with(
        path: &Path,
        clock: Clock,
        limits: Limits,
        files: Arc<dyn Files>,
    ) -> Result<(Self, Opened), OutboxError> {
        let location = OutboxLocation::new(path, files)?;
        let (conn, recovered) = opening::open(&location, &clock).await?;
        let current = Current { conn, identity: location.identity(), synced: Synced::AtOnce };
        let inner = Inner {
            location,
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
        &self.0.location.path
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Closes the file; the next operation opens it again. The last process to close it checkpoints the log.
    pub async fn close(&self) -> Result<(), OutboxError> {
        let current = self.0.file.lock().await.take();
        let Some(current) = current else { return Ok(()) };
        current.conn.close().await.map_err(|error| outbox_error(self.path(), error))
    }

    /// The last recovery since the previous call, other than the one reported by `open`.
    #[must_use]
    pub fn take_recovery(&self) -> Option<Recovery> {
        self.0.recovered.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns when a row was queued or retried through this value or a clone since the last call. Other
    /// processes do not wake it, so callers must also poll.
    pub async fn write_available(&self) {
        self.0.queued.notified().await;
    }

    fn wake(&self) {
        self.0.queued.notify_one();
    }

    fn now(&self) -> i64 {
        self.0.clock.now().as_millisecond()
    }

    /// Runs `work` on the connection; its writes are on disk when this returns.
    async fn run<T, W>(&self, work: W) -> Result<T, OutboxError>
    where
        W: for<'c> Fn(&'c mut Conn) -> BoxFuture<'c, Result<T, StoreError>>,
    {
        self.run_synced(Synced::AtOnce, work).await
    }

    /// As [`Self::run`] with the given durability; retries once after repairing the file.
    async fn run_synced<T, W>(&self, synced: Synced, work: W) -> Result<T, OutboxError>
    where
        W: for<'c> Fn(&'c mut Conn) -> BoxFuture<'c, Result<T, StoreError>>,
    {
        let Inner { location, clock, file, recovered, .. } = &*self.0;
        let mut file = file.lock().await;
        let mut again = true;
        loop {
            // The shared lock prevents the file from being moved.
            let shared = location.shared().await?;
            let Some(current) = file.as_mut().filter(|current| current.identity == location.identity())
            else {
                drop(shared);
                if let Some(current) = file.take() {
                    let _ = current.conn.close().await;
                }
                let (conn, recovery) = opening::open(location, clock).await?;
                *file = Some(Current { conn, identity: location.identity(), synced: Synced::AtOnce });
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
            match failure_kind(&error) {
                // Reopening checks and repairs the file.
                FailureKind::Damaged if again => {
                    again = false;
                    current.identity = None;
                }
                FailureKind::Other => {
                    current.identity = None;
                    return Err(outbox_error(&location.path, error));
                }
                _ => return Err(outbox_error(&location.path, error)),
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

/// Delay after the given number of failed attempts, starting at 1.
#[must_use]
pub fn pause(attempts: u32, jitter: &Jitter) -> Duration {
    jitter.shorten(backoff::doubled(FIRST_PAUSE, attempts.saturating_sub(1), LONGEST_OWN_PAUSE))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
