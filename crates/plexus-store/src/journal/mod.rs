//! The journal: a write-ahead log that acknowledges records before they are in the database.
//!
//! Records that are not part of a transaction (the two halves of a call's audit record, its events) are
//! appended to a file with one `write` by the task that created them, under a lock that is held for a few
//! microseconds and across no await. This is cheaper than waking the writer and the database thread and being
//! woken again, as a separate commit would require. The file survives `kill -9` like the database's own log;
//! the writer moves its records into SQL soon after, many at a time. Invariants:
//!
//! - Records in the journal are acknowledged; they reach SQL exactly once, in journal order, before anything
//!   submitted to the writer later. The number of the last stored record is updated in the same transaction,
//!   so that a crash around the commit replays none twice.
//! - Acknowledged records that were not moved are replayed before the store opens again.
//! - If the journal cannot accept records, it returns them and they are written like transactions: the caller
//!   waits for the commit. This applies while the database is unavailable or fails, while the writer is
//!   [`BACKLOG`] behind, on disk errors, for a session that is not known to exist (the caller must get an
//!   error), and always with `durability = "power"`, since the journal does not wait for the disk. Therefore
//!   neither the file nor memory use grows without bound.
//! - Numbers are consecutive across segments and restarts.

mod codec;
mod copy;
mod folder;
mod position;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_kit::Durability;
use plexus_proto::SessionId;
use tokio::sync::Notify;

use crate::StoreError;
use crate::writer::Records;

pub use copy::JournalCopy;
pub(crate) use folder::is_empty;
pub(crate) use position::stored_statement;
use segment::Segment;
pub(crate) use segment::is_segment;

/// Maximum size in bytes of records waiting for the writer; further ones are returned.
const BACKLOG: usize = 16 << 20;
/// A segment longer than this is closed: records go into a new one, and the old one is removed once all its
/// records are in SQL.
const SEGMENT: u64 = 8 << 20;
/// How long records wait to be batched if nobody requests them: a transaction for a hundred calls costs
/// little more than one for ten.
const LINGER: Duration = Duration::from_millis(50);
/// The delay while someone follows the events.
const FOLLOWED: Duration = Duration::from_millis(5);
/// Size in bytes at which records are stored without further delay.
const PLENTY: usize = 1 << 20;
/// Delay before a failed transaction is retried.
const RETRY: Duration = Duration::from_millis(500);
/// Maximum number of known sessions, after which the set is cleared.
const KNOWN: usize = 100_000;

/// Cheap to clone; all clones share one journal.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Shared>);

struct Shared {
    location: JournalLocation,
    durability: Durability,
    state: Mutex<State>,
    /// Numbers of the newest record, and of the newest one in SQL.
    appended: AtomicI64,
    stored: AtomicI64,
    /// Whether the last transaction failed.
    failing: AtomicBool,
    filled: Notify,
    /// Notified when [`PLENTY`] is waiting.
    plenty: Notify,
}

/// Folder and identity of a journal.
#[derive(Debug, Clone)]
pub(crate) struct JournalLocation {
    pub(crate) folder: PathBuf,
    /// Also stored in the database: the journal of another one must not be replayed into it.
    pub(crate) id: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The records left by the previous hub are not in SQL yet.
    Replaying,
    Open,
    Closed,
}

struct State {
    phase: Phase,
    /// The segment for new records. While the journal is open, it is `None` only after a disk error; the next
    /// commit tries to create one.
    active: Option<Segment>,
    /// Closed segments with the number of their last record, oldest first.
    full: Vec<(PathBuf, i64)>,
    /// Segments that were found damaged when read.
    damaged: HashSet<PathBuf>,
    pending: Vec<Records>,
    pending_bytes: usize,
    /// Sessions known to exist.
    known: HashSet<SessionId>,
    frame: Vec<u8>,
    /// Whether a disk error was logged; it is logged once.
    refused: bool,
}

impl State {
    /// Creates the segment for records from number `first` on.
    fn begin(&mut self, location: &JournalLocation, first: i64) {
        match location.segment(first) {
            Ok(segment) => self.active = Some(segment),
            Err(error) => refused(&mut self.refused, &error, &location.folder),
        }
    }

    /// Closes the active segment, whose last record is number `last`.
    fn retire(&mut self, last: i64) {
        let active = self.active.take();
        self.full.extend(active.map(|segment| (segment.path().to_owned(), last)));
    }

    /// Disposes of the segments whose records up to number `through` are in SQL.
    fn discard(&mut self, through: i64) {
        let Self { full, damaged, .. } = self;
        full.retain(|(path, last)| {
            let is_pending = *last > through;
            if !is_pending {
                folder::dispose(path, damaged.remove(path));
            }
            is_pending
        });
    }
}

/// Logs a disk error, once.
fn refused(is_logged: &mut bool, error: &std::io::Error, path: &Path) {
    if !std::mem::replace(is_logged, true) {
        let path = path.display();
        tracing::error!(%error, %path, "cannot write to the journal; calls wait for the database instead");
    }
}

/// Records being moved into SQL.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) records: Vec<Records>,
    /// Number of the last of them.
    pub(crate) through: i64,
}

impl Journal {
    /// Reads the records that a previous hub left after record `position`; the writer must store them before
    /// the journal [begins](Self::begin).
    pub(crate) fn open(
        location: JournalLocation,
        position: i64,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let leftover = folder::read(&location, position)?;
        let last = leftover.last(position);
        if last > position {
            tracing::info!(
                records = leftover.records.len(),
                "replaying the journal of a hub that did not stop cleanly"
            );
        }
        let state = State {
            phase: Phase::Replaying,
            active: None,
            damaged: leftover.damaged.into_iter().collect(),
            full: leftover.segments.into_iter().map(|path| (path, last)).collect(),
            pending: leftover.records,
            pending_bytes: 0,
            known: HashSet::new(),
            frame: Vec::new(),
            refused: false,
        };
        Ok(Self(Arc::new(Shared {
            location,
            durability,
            state: Mutex::new(state),
            appended: AtomicI64::new(last),
            stored: AtomicI64::new(position),
            failing: AtomicBool::new(false),
            filled: Notify::new(),
            plenty: Notify::new(),
        })))
    }

    /// Starts accepting records. The records left before must be in SQL.
    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        let shared = &self.0;
        let mut state = self.state();
        state.discard(i64::MAX);
        state.phase = Phase::Open;
        if self.is_used() {
            let first = shared.appended.load(Ordering::Relaxed) + 1;
            state.active = Some(shared.location.segment(first).map_err(|e| shared.location.failed(e))?);
        }
        Ok(())
    }

    /// Whether the journal is used at all with the configured durability.
    pub(crate) fn is_used(&self) -> bool {
        self.0.durability == Durability::Process
    }

    /// Acknowledges the records, or returns them.
    pub(crate) fn append(&self, records: Records) -> Result<(), Records> {
        let shared = &self.0;
        let mut guard = self.state();
        let state = &mut *guard;
        let takes = !records.is_empty()
            && !shared.failing.load(Ordering::Relaxed)
            && state.pending_bytes < BACKLOG
            && records.events.iter().all(|(session, _)| state.known.contains(session));
        let Some(active) = state.active.as_mut().filter(|_| takes) else { return Err(records) };
        let n = shared.appended.load(Ordering::Relaxed) + 1;
        if !segment::frame(n, &records, &mut state.frame) {
            return Err(records);
        }
        if let Err(unwritten) = active.write(&state.frame) {
            refused(&mut state.refused, &unwritten.error, active.path());
            if !unwritten.usable {
                state.retire(n - 1);
            }
            return Err(records);
        }
        state.refused = false;
        state.pending.push(records);
        state.pending_bytes += state.frame.len();
        shared.appended.store(n, Ordering::Release);
        if active.bytes() > SEGMENT {
            state.retire(n);
            state.begin(&shared.location, n + 1);
        }
        let (first, plenty) = (state.pending.len() == 1, state.pending_bytes >= PLENTY);
        drop(guard);
        if first {
            shared.filled.notify_one();
        }
        if plenty {
            shared.plenty.notify_one();
        }
        Ok(())
    }

    /// Whether everything acknowledged is in SQL.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.stored.load(Ordering::Acquire) == self.0.appended.load(Ordering::Acquire)
    }

    /// Number of the last record known to be in SQL.
    pub(crate) fn position(&self) -> i64 {
        self.0.stored.load(Ordering::Relaxed)
    }

    /// Number of records that are not in SQL yet.
    pub(crate) fn waiting(&self) -> usize {
        let (stored, appended) =
            (self.0.stored.load(Ordering::Relaxed), self.0.appended.load(Ordering::Relaxed));
        usize::try_from(appended - stored).unwrap_or(0)
    }

    /// Completes when records should be moved although nobody requests them.
    pub(crate) async fn due(&self, followed: impl Fn() -> bool) {
        while self.is_settled() {
            self.0.filled.notified().await;
        }
        if self.is_failing() {
            return tokio::time::sleep(RETRY).await;
        }
        let linger = if followed() { FOLLOWED } else { LINGER };
        tokio::select! {
            () = self.0.plenty.notified() => {}
            () = tokio::time::sleep(linger) => {}
        }
    }

    /// Whether the records to store next must be [read again](Self::read_again), since their outcome is
    /// unknown.
    pub(crate) fn is_failing(&self) -> bool {
        self.0.failing.load(Ordering::Relaxed)
    }

    /// Takes the records to store next. They are removed from memory: if storing fails, they are still in the
    /// file.
    pub(crate) fn take(&self) -> Batch {
        let mut state = self.state();
        state.pending_bytes = 0;
        let records = std::mem::take(&mut state.pending);
        Batch { records, through: self.0.appended.load(Ordering::Relaxed) }
    }

    /// As [`Self::take`] after a failure, given the position stored in SQL.
    pub(crate) fn read_again(&self, position: i64) -> Result<Batch, StoreError> {
        let mut state = self.state();
        // Nothing can be added in the meantime: a failing journal accepts no records.
        state.pending.clear();
        state.pending_bytes = 0;
        let leftover = folder::read(&self.0.location, position)?;
        state.damaged.extend(leftover.damaged);
        Ok(Batch { records: leftover.records, through: self.0.appended.load(Ordering::Relaxed) })
    }

    /// Marks the records up to number `through` as stored in SQL.
    pub(crate) fn stored(&self, through: i64) {
        self.0.failing.store(false, Ordering::Relaxed);
        self.0.stored.store(through, Ordering::Release);
        let mut state = self.state();
        // Leftover segments are removed once all their records are stored, see `begin`.
        if state.phase == Phase::Replaying {
            return;
        }
        state.discard(through);
        // Recovers from a disk error. With no segments left, the name of the new one cannot be in use.
        if state.phase == Phase::Open && state.active.is_none() && state.full.is_empty() && self.is_used() {
            state.begin(&self.0.location, through + 1);
        }
    }

    /// A transaction failed; no records are accepted until one succeeds.
    pub(crate) fn failed(&self) {
        self.0.failing.store(true, Ordering::Relaxed);
        // A session may have been deleted since it was seen; the next lookup finds out.
        self.state().known.clear();
    }

    /// Stops accepting records.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.phase = Phase::Closed;
        state.retire(self.0.appended.load(Ordering::Relaxed));
    }

    /// Removes the segments whose records are in SQL.
    pub(crate) fn tidy(&self) {
        if !self.is_settled() {
            let records = self.waiting();
            tracing::error!(
                records,
                "the journal keeps records for the next start: the database did not accept them"
            );
            return;
        }
        self.state().discard(i64::MAX);
    }

    /// The sessions not known to exist, without duplicates.
    pub(crate) fn unknown(&self, sessions: impl Iterator<Item = SessionId>) -> Vec<SessionId> {
        let state = self.state();
        let mut unknown: Vec<_> = sessions.filter(|session| !state.known.contains(session)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// Records that these sessions exist.
    pub(crate) fn learn(&self, sessions: Vec<SessionId>) {
        let mut state = self.state();
        if state.known.len() > KNOWN {
            state.known.clear();
        }
        state.known.extend(sessions);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
