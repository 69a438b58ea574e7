//! The group-commit writer: the only task that writes.
//!
//! Requests are processed in order; all waiting ones are executed in one transaction and answered after its
//! commit. The transaction first stores the records in the [journal](crate::journal). Therefore:
//! - a request is committed together with or after every earlier request and every record that was in the
//!   journal by then, and its work sees those records;
//! - records in the journal are stored soon, even if no requests arrive;
//! - without a journal, records that nobody awaits ([`Writer::append_soon`]) are delayed until a request is
//!   awaited or [`LINGER`] has passed, which puts the two records of a short call into one commit;
//! - if a commit fails, every request in it gets the error, and the audit chain is unchanged.
//!
//! The queue is bounded; callers wait while it is full.

mod batch;
mod connection;

use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_kit::{Stage, Supervisor};
use plexus_proto::api::AuditHead;
use plexus_proto::{NewEvent, SessionId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::audit::NewAudit;
use crate::dialect::Readers;
use crate::journal::Journal;
use crate::metrics::StoreMetrics;
use crate::{Conn, StoreError};

use batch::Batch;
pub(crate) use connection::WriterConnection;

/// Capacity of the queue; further callers wait.
const QUEUE: usize = 4096;
/// Maximum number of requests in one transaction.
const BATCH: usize = 256;
/// How long records that nobody awaits are delayed to be batched.
const LINGER: Duration = Duration::from_millis(2);

/// Rows to append to the logs.
#[derive(Debug, Default)]
pub struct Records {
    pub audit: Vec<NewAudit>,
    pub events: Vec<(SessionId, NewEvent)>,
}

impl Records {
    pub(crate) fn is_empty(&self) -> bool {
        self.audit.is_empty() && self.events.is_empty()
    }
}

type Work = Box<dyn for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<(), Undo>> + Send>;
type Record = Box<dyn FnOnce() -> Records + Send>;

/// A unit of work failed and must be rolled back. The error itself stays with the unit.
struct Undo;

/// One request to the writer.
struct Request {
    /// Runs first, under a savepoint.
    work: Option<Work>,
    /// Runs after `work`.
    record: Record,
    reply: Reply,
    /// Whether the commit must survive a power loss.
    through: bool,
}

/// How the outcome is reported.
enum Reply {
    /// The caller awaits it.
    Answer(oneshot::Sender<Result<(), StoreError>>),
    /// Nobody awaits it, but a later request may check it.
    Ticket(Ticket),
}

/// The outcome of records that nobody awaited. It is known to every later request, because requests are
/// processed in order.
#[derive(Debug, Clone, Default)]
pub struct Ticket(Arc<AtomicBool>);

impl Ticket {
    /// Whether the transaction of the records failed.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Request>,
    journal: Journal,
    /// Whether the newest transaction was committed.
    healthy: Arc<AtomicBool>,
    heads: watch::Receiver<Option<AuditHead>>,
    events: watch::Sender<()>,
}

impl Writer {
    /// Stores the records left in the journal, then accepts requests.
    pub(crate) async fn start(
        mut connection: WriterConnection,
        journal: Journal,
        hub: &str,
        readers: Readers,
        locks: Vec<File>,
        metrics: StoreMetrics,
        supervisor: &Supervisor,
    ) -> Result<Self, StoreError> {
        let head = connection.conn()?.audit_head(hub).await?;
        let (queue, requests) = mpsc::channel(QUEUE);
        let (published, heads) = watch::channel(head.clone());
        let stop = supervisor.stopping(Stage::Storage);
        let healthy = Arc::new(AtomicBool::new(true));
        let events = watch::Sender::new(());
        let mut batch = Batch::new(
            connection,
            journal.clone(),
            hub.to_owned(),
            head,
            published,
            healthy.clone(),
            events.clone(),
        );
        if !journal.is_settled() {
            commit(&mut batch, &journal, &mut vec![], &metrics).await?;
        }
        journal.begin()?;
        let retained_journal = journal.clone();
        supervisor.spawn(Stage::Storage, "store writer", async move {
            run(&mut batch, &retained_journal, requests, &metrics, stop).await;
            retained_journal.tidy();
            // The writer closes last: with no other connection open, SQLite checkpoints its log. Only then
            // may another hub open the file.
            readers.close().await;
            batch.close().await;
            drop(locks);
        });
        Ok(Self { queue, journal, healthy, heads, events })
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn heads(&self) -> watch::Receiver<Option<AuditHead>> {
        self.heads.clone()
    }

    pub(crate) fn event_hints(&self) -> watch::Receiver<()> {
        self.events.subscribe()
    }

    pub(crate) fn hint_events(&self) {
        self.events.send_replace(());
    }

    /// With `through`, the changes are durable when this returns, regardless of the configured durability.
    pub(crate) async fn transact<T, E, W, R>(
        &self,
        work: W,
        record: R,
        through: bool,
    ) -> Result<Result<T, E>, StoreError>
    where
        T: Send + 'static,
        E: Send + 'static,
        W: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        R: FnOnce(&Result<T, E>) -> Records + Send + 'static,
    {
        // The outcome stays here; the writer, which does not know its type, only handles `()`.
        let slot = Arc::new(Mutex::new(None));
        let (filled, read) = (slot.clone(), slot.clone());
        let work: Work = Box::new(move |conn| {
            Box::pin(async move {
                let outcome = work(conn).await;
                let done = if outcome.is_ok() { Ok(()) } else { Err(Undo) };
                *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                done
            })
        });
        let record: Record = Box::new(move || {
            read.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(record).unwrap_or_default()
        });
        self.submit(Some(work), record, through).await?;
        let outcome = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Empty only if the work panicked.
        outcome.ok_or(StoreError::Panicked)
    }

    pub(crate) async fn append(
        &self,
        record: impl FnOnce() -> Records + Send + 'static,
    ) -> Result<(), StoreError> {
        if !self.journal.is_used() {
            return self.submit(None, Box::new(record), false).await;
        }
        // With a journal, callers know the outcome before they continue, so there is no order to wait for.
        match self.journal.append(record()) {
            Ok(()) => Ok(()),
            Err(records) => self.submit(None, Box::new(move || records), false).await,
        }
    }

    /// Waits until everything in the journal now is committed.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        if self.journal.is_settled() {
            return Ok(());
        }
        self.submit(None, Box::new(Records::default), false).await
    }

    pub(crate) async fn append_soon(&self, records: Records) -> Result<Ticket, StoreError> {
        if self.journal.is_used() {
            return self.append(move || records).await.map(|()| Ticket::default());
        }
        let ticket = Ticket::default();
        let reply = Reply::Ticket(ticket.clone());
        let request = Request { work: None, record: Box::new(move || records), reply, through: false };
        self.queue.send(request).await.map_err(|_| StoreError::Closed)?;
        Ok(ticket)
    }

    /// Number of requests in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    pub(crate) fn last_commit_succeeded(&self) -> bool {
        self.healthy.load(Ordering::Relaxed) && !self.queue.is_closed()
    }

    async fn submit(&self, work: Option<Work>, record: Record, through: bool) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { work, record, reply: Reply::Answer(reply), through };
        self.queue.send(request).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("free", &self.queue.capacity()).finish()
    }
}

async fn run(
    batch: &mut Batch,
    journal: &Journal,
    mut requests: mpsc::Receiver<Request>,
    metrics: &StoreMetrics,
    stop: tokio_util::sync::CancellationToken,
) {
    let mut waiting = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            first = requests.recv() => match first {
                Some(first) => {
                    waiting.push(first);
                    gather(&mut waiting, &mut requests).await;
                }
                // All accepted requests are done, except for records that are only in the journal.
                None if journal.is_settled() => return,
                None => {
                    let _ = commit(batch, journal, &mut waiting, metrics).await;
                    return;
                }
            },
            () = journal.due(|| batch.is_followed()) => {}
            // Shutdown: accept no more requests, and finish the accepted ones.
            () = stop.cancelled(), if !requests.is_closed() => {
                requests.close();
                journal.close();
                continue;
            }
        }
        // Every request got the error, and the batch has logged it.
        let _ = commit(batch, journal, &mut waiting, metrics).await;
    }
}

/// Runs one transaction and records its metrics.
async fn commit(
    batch: &mut Batch,
    journal: &Journal,
    waiting: &mut Vec<Request>,
    metrics: &StoreMetrics,
) -> Result<(), StoreError> {
    let (request_count, began) = (waiting.len() + journal.waiting(), Instant::now());
    let committed = batch.commit(waiting).await;
    metrics.ended(request_count, began.elapsed(), committed.is_ok());
    committed
}

/// Adds requests that are already queued; delays for more while none is awaited.
async fn gather(waiting: &mut Vec<Request>, requests: &mut mpsc::Receiver<Request>) {
    let until = Instant::now() + LINGER;
    while waiting.len() < BATCH {
        match requests.try_recv() {
            Ok(request) => waiting.push(request),
            Err(_) if waiting.iter().any(|request| matches!(request.reply, Reply::Answer(_))) => return,
            Err(_) => match tokio::time::timeout_at(until, requests.recv()).await {
                Ok(Some(request)) => waiting.push(request),
                Ok(None) | Err(_) => return,
            },
        }
    }
}
