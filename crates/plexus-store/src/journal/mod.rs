//! The journal: where records are acknowledged before they are in the database.
//!
//! Records that are part of no transaction (the two halves of a call's audit, its events) are appended to
//! a file with one `write`, by the task that has them, under a lock that is held for a few microseconds
//! and over no await. That is cheaper than to wake the writer, and the database's thread, and to be woken
//! again, which is what a commit of one's own costs. The file outlives `kill -9` as the database's own log
//! does; the writer moves its records into SQL soon after, many at a time. So:
//!
//! - What is in the journal is acknowledged; it reaches SQL once, in the order of the journal, before
//!   anything that is submitted to the writer later. The number of the last record that did is stored in
//!   the same transaction, so that a crash around the commit replays none twice.
//! - Whatever was acknowledged and not yet moved is replayed before the store is open again.
//! - Where the journal cannot take records, they are handed back and go the way of the transactions: their
//!   caller waits for the commit. That is so while the database is away or fails, when the writer is
//!   [`BACKLOG`] behind, while the disk refuses, for a session that is not known to exist (its caller must
//!   be told), and always with `durability = "power"`, for nothing here waits for the disk.
//!   So neither the file nor the memory grows without bound.
//! - Numbers run on without a gap over segments and restarts.

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

/// Bytes of records that may wait for the writer; one more is handed back.
const BACKLOG: usize = 16 << 20;
/// A segment that is longer than this gets no more records: they go into a new one, and the old one is removed
/// as soon as all it has is in SQL.
const SEGMENT: u64 = 8 << 20;
/// How long records wait for company on their way into SQL when nobody asks for them: a transaction for a hundred calls
/// costs little more than one for ten.
const LINGER: Duration = Duration::from_millis(50);
/// The same while somebody follows the events.
const FOLLOWED: Duration = Duration::from_millis(5);
/// With so many bytes they have company enough.
const PLENTY: usize = 1 << 20;
/// How long after a transaction that failed they are tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Sessions remembered before the memory is begun anew.
const KNOWN: usize = 100_000;

/// Cheap to clone; all clones are one journal.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Shared>);

struct Shared {
    place: Place,
    durability: Durability,
    state: Mutex<State>,
    /// Number of the newest record, and of the newest that is in SQL.
    appended: AtomicI64,
    stored: AtomicI64,
    /// A transaction failed and none has succeeded since.
    failing: AtomicBool,
    filled: Notify,
    /// [`PLENTY`] is waiting.
    plenty: Notify,
}

/// Where a journal is and whose.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    /// Stored in the database too: a journal of another one must not be replayed into it.
    pub(crate) id: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// What was left is not in SQL yet.
    Replaying,
    Open,
    Closed,
}

struct State {
    phase: Phase,
    /// Where records go. While the journal is open there is none only where the disk refused; the next
    /// commit tries again.
    active: Option<Segment>,
    /// Segments that get no more, with the number of their last record, oldest first.
    full: Vec<(PathBuf, i64)>,
    /// Segments that were read and have damage in them.
    damaged: HashSet<PathBuf>,
    pending: Vec<Records>,
    pending_bytes: usize,
    /// Sessions that were seen to exist.
    known: HashSet<SessionId>,
    frame: Vec<u8>,
    /// The disk has refused a record or a segment, which is said once.
    refused: bool,
}

impl State {
    /// Makes the segment for records from number `first` on.
    fn begin(&mut self, place: &Place, first: i64) {
        match place.segment(first) {
            Ok(segment) => self.active = Some(segment),
            Err(error) => refused(&mut self.refused, &error, &place.folder),
        }
    }

    /// Nothing more goes into the active segment, whose last record is number `last`.
    fn retire(&mut self, last: i64) {
        let active = self.active.take();
        self.full.extend(active.map(|segment| (segment.path().to_owned(), last)));
    }

    /// Disposes of the segments whose records up to number `through` are in SQL.
    fn discard(&mut self, through: i64) {
        let Self { full, damaged, .. } = self;
        full.retain(|(path, last)| {
            let keep = *last > through;
            if !keep {
                folder::dispose(path, damaged.remove(path));
            }
            keep
        });
    }
}

/// Says that the disk refuses, once.
fn refused(said: &mut bool, error: &std::io::Error, path: &Path) {
    if !std::mem::replace(said, true) {
        let path = path.display();
        tracing::error!(%error, %path, "cannot write to the journal; calls wait for the database instead");
    }
}

/// Records on their way into SQL.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) records: Vec<Records>,
    /// Number of the last of them.
    pub(crate) through: i64,
}

impl Journal {
    /// Reads what a former hub left after record `position`, which the writer has to store before the
    /// journal [begins](Self::begin).
    pub(crate) fn open(place: Place, position: i64, durability: Durability) -> Result<Self, StoreError> {
        let left = folder::read(&place, position)?;
        let last = left.last(position);
        if last > position {
            tracing::info!(records = left.records.len(), "replaying the journal of a hub that did not stop");
        }
        let state = State {
            phase: Phase::Replaying,
            active: None,
            damaged: left.damaged.into_iter().collect(),
            full: left.segments.into_iter().map(|path| (path, last)).collect(),
            pending: left.records,
            pending_bytes: 0,
            known: HashSet::new(),
            frame: Vec::new(),
            refused: false,
        };
        Ok(Self(Arc::new(Shared {
            place,
            durability,
            state: Mutex::new(state),
            appended: AtomicI64::new(last),
            stored: AtomicI64::new(position),
            failing: AtomicBool::new(false),
            filled: Notify::new(),
            plenty: Notify::new(),
        })))
    }

    /// Takes records from now on. What was left is in SQL.
    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        let shared = &self.0;
        let mut state = self.state();
        state.discard(i64::MAX);
        state.phase = Phase::Open;
        if self.is_used() {
            let first = shared.appended.load(Ordering::Relaxed) + 1;
            state.active = Some(shared.place.segment(first).map_err(|e| shared.place.failed(e))?);
        }
        Ok(())
    }

    /// Whether records go here at all, but for the exceptions of the moment.
    pub(crate) fn is_used(&self) -> bool {
        self.0.durability == Durability::Process
    }

    /// Acknowledges the records, or hands them back.
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
            state.begin(&shared.place, n + 1);
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

    /// Whether everything that was acknowledged is in SQL.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.stored.load(Ordering::Acquire) == self.0.appended.load(Ordering::Acquire)
    }

    /// Number of the last record that is known to be in SQL.
    pub(crate) fn position(&self) -> i64 {
        self.0.stored.load(Ordering::Relaxed)
    }

    /// Records that are not in SQL yet.
    pub(crate) fn waiting(&self) -> usize {
        let (stored, appended) =
            (self.0.stored.load(Ordering::Relaxed), self.0.appended.load(Ordering::Relaxed));
        usize::try_from(appended - stored).unwrap_or(0)
    }

    /// Ends when it is time to move records, if there are any, although nobody asks for them.
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

    /// Whether what is next to be stored has to be [read again](Self::read_again), since nobody knows what
    /// became of it.
    pub(crate) fn is_failing(&self) -> bool {
        self.0.failing.load(Ordering::Relaxed)
    }

    /// What is to be stored next. It is no longer kept in memory: should it not be stored, the file has it.
    pub(crate) fn take(&self) -> Batch {
        let mut state = self.state();
        state.pending_bytes = 0;
        let records = std::mem::take(&mut state.pending);
        Batch { records, through: self.0.appended.load(Ordering::Relaxed) }
    }

    /// The same after a failure, with what SQL says of where the journal is.
    pub(crate) fn read_again(&self, position: i64) -> Result<Batch, StoreError> {
        let mut state = self.state();
        // Nothing can be added meanwhile: a failing journal takes nothing.
        state.pending.clear();
        state.pending_bytes = 0;
        let left = folder::read(&self.0.place, position)?;
        state.damaged.extend(left.damaged);
        Ok(Batch { records: left.records, through: self.0.appended.load(Ordering::Relaxed) })
    }

    /// The records up to number `through` are in SQL.
    pub(crate) fn stored(&self, through: i64) {
        self.0.failing.store(false, Ordering::Relaxed);
        self.0.stored.store(through, Ordering::Release);
        let mut state = self.state();
        // What was left goes when all of it is stored, see `begin`.
        if state.phase == Phase::Replaying {
            return;
        }
        state.discard(through);
        // The disk refused. Once nothing is left of what it took, no name can be in use that the new one gets.
        if state.phase == Phase::Open && state.active.is_none() && state.full.is_empty() && self.is_used() {
            state.begin(&self.0.place, through + 1);
        }
    }

    /// A transaction failed; nothing is taken until one succeeds.
    pub(crate) fn failed(&self) {
        self.0.failing.store(true, Ordering::Relaxed);
        // Should a session have gone since it was seen, the next look finds out.
        self.state().known.clear();
    }

    /// Takes nothing any more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.phase = Phase::Closed;
        state.retire(self.0.appended.load(Ordering::Relaxed));
    }

    /// Leaves nothing behind that is in SQL.
    pub(crate) fn tidy(&self) {
        if !self.is_settled() {
            let records = self.waiting();
            tracing::error!(records, "the journal keeps records for the next start: the database took none");
            return;
        }
        self.state().discard(i64::MAX);
    }

    /// Which of the sessions are not known to exist, each once.
    pub(crate) fn unknown(&self, sessions: impl Iterator<Item = SessionId>) -> Vec<SessionId> {
        let state = self.state();
        let mut unknown: Vec<_> = sessions.filter(|session| !state.known.contains(session)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// These sessions exist.
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
