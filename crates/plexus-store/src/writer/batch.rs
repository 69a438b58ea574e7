//! One transaction of the writer: journaled records, units of work, and then the records of all of them.

use std::collections::HashSet;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use plexus_proto::api::AuditHead;
use plexus_proto::{NewEvent, SessionId};
use tokio::sync::watch;

use super::connection::RollbackOutcome;
use super::{Record, Records, Reply, Request, Ticket, Work, WriterConnection};
use crate::audit_chain::{self, ChainedEntry};
use crate::conn::Statement;
use crate::journal::{self, Journal};
use crate::{StoreError, audit, events};

pub(super) struct Batch {
    connection: WriterConnection,
    journal: Journal,
    hub: String,
    /// Newest committed link; the next one follows it.
    head: Option<AuditHead>,
    published: watch::Sender<Option<AuditHead>>,
    healthy: Arc<AtomicBool>,
    /// Notified after each commit that contains events.
    events: watch::Sender<()>,
    /// The chain head of the transaction that is being committed.
    committing: Option<AuditHead>,
    uncertain: Option<UncertainCommit>,
}

/// A commit with unknown outcome; the chain head on the next connection tells whether it succeeded.
struct UncertainCommit {
    head: AuditHead,
    tickets: Vec<Ticket>,
}

/// The last step of a transaction. If the connection breaks in it, the outcome is unknown.
const COMMITTING: &str = "committing";

/// Ends the savepoint of a unit of work; on PostgreSQL also proves that none of its statements failed.
const RELEASE: &str = "RELEASE unit";

/// The answer of one request, sent once the outcome of the transaction is known.
struct Answer {
    reply: Reply,
    failure: Option<StoreError>,
}

/// Records that are written together.
#[derive(Default)]
struct Gathered {
    records: Records,
    /// For each event, the index of its request; `None` for events from the journal.
    owners: Vec<Option<usize>>,
}

impl Gathered {
    fn add(&mut self, records: Records, owner: Option<usize>) {
        self.owners.resize(self.owners.len() + records.events.len(), owner);
        self.records.audit.extend(records.audit);
        self.records.events.extend(records.events);
    }
}

/// Result of a committed transaction.
struct Committed {
    head: Option<AuditHead>,
    events: bool,
    /// Journal position up to which records are stored.
    journaled: i64,
}

impl Batch {
    pub(super) fn new(
        connection: WriterConnection,
        journal: Journal,
        hub: String,
        head: Option<AuditHead>,
        published: watch::Sender<Option<AuditHead>>,
        healthy: Arc<AtomicBool>,
        events: watch::Sender<()>,
    ) -> Self {
        Self { connection, journal, hub, head, published, healthy, events, committing: None, uncertain: None }
    }

    /// Whether anyone follows new events.
    pub(super) fn is_followed(&self) -> bool {
        self.events.receiver_count() > 0
    }

    pub(super) async fn close(self) {
        if let Err(error) = self.connection.close().await {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }

    /// Stores the journaled records, executes and answers the requests, and returns whether they were
    /// committed. A failure is reported to every request.
    pub(super) async fn commit(&mut self, requests: &mut Vec<Request>) -> Result<(), StoreError> {
        let mut answers = Vec::with_capacity(requests.len());
        let mut units = Vec::with_capacity(requests.len());
        let through = requests.iter().any(|request| request.through);
        for Request { work, record, reply, .. } in requests.drain(..) {
            answers.push(Answer { reply, failure: None });
            units.push((work, record));
        }
        self.committing = None;
        let outcome = match self.connection.time_limit() {
            None => self.transaction(units, &mut answers, through).await,
            Some(time_limit) => {
                let bounded =
                    tokio::time::timeout(time_limit, self.transaction(units, &mut answers, through)).await;
                match bounded {
                    Ok(outcome) => outcome,
                    Err(_) => Err(self.connection.time_limit_exceeded().await),
                }
            }
        };
        let outcome = match outcome {
            Ok(Committed { head, events, journaled }) => {
                self.journal.stored(journaled);
                self.publish(head);
                if events {
                    self.events.send_replace(());
                }
                Ok(())
            }
            Err(error) => Err(self.undo(error).await),
        };
        self.healthy.store(outcome.is_ok(), Ordering::Relaxed);
        let mut tickets = Vec::new();
        for answer in answers {
            let reply = match answer.reply {
                Reply::Answer(reply) => reply,
                Reply::Ticket(ticket) => {
                    ticket.0.store(outcome.is_err(), Ordering::Release);
                    tickets.push(ticket);
                    continue;
                }
            };
            // The caller may be gone, which is fine.
            let _ = reply.send(match (&outcome, answer.failure) {
                (Err(error), _) => Err(error.clone()),
                (Ok(()), Some(error)) => Err(error),
                (Ok(()), None) => Ok(()),
            });
        }
        if let (Err(StoreError::Uncertain { .. }), Some(head)) = (&outcome, self.committing.take()) {
            self.uncertain = Some(UncertainCommit { head, tickets });
        }
        outcome
    }

    fn publish(&mut self, head: Option<AuditHead>) {
        if head != self.head {
            self.head.clone_from(&head);
            self.published.send_replace(head);
        }
    }

    /// Cleans up after a failed transaction; returns the error for its callers.
    async fn undo(&mut self, error: StoreError) -> StoreError {
        self.journal.failed();
        tracing::error!(%error, source = ?std::error::Error::source(&error), "a transaction failed");
        match (self.connection.roll_back().await, error) {
            (RollbackOutcome::Unknown, StoreError::Query { doing: COMMITTING, source }) => {
                StoreError::Uncertain { source }
            }
            (_, error) => error,
        }
    }

    /// Begins the transaction. Replaces a dead connection: nothing was sent on it yet that would have to be
    /// repeated.
    async fn begin(&mut self) -> Result<(), StoreError> {
        self.restore().await?;
        if self.connection.begin().await.is_ok() {
            return Ok(());
        }
        self.connection.drop_connection().await;
        self.restore().await?;
        self.connection.begin().await
    }

    async fn restore(&mut self) -> Result<(), StoreError> {
        if let Some(head) = self.connection.restore(&self.hub).await? {
            if let Some(uncertain) =
                self.uncertain.take().filter(|uncertain| head.as_ref() == Some(&uncertain.head))
            {
                tracing::info!("the commit that was in progress when the connection was lost has succeeded");
                uncertain.tickets.iter().for_each(|ticket| ticket.0.store(false, Ordering::Release));
            }
            self.publish(head);
        }
        Ok(())
    }

    async fn transaction(
        &mut self,
        units: Vec<(Option<Work>, Record)>,
        answers: &mut [Answer],
        through: bool,
    ) -> Result<Committed, StoreError> {
        // Statements sent together with the next statement that must be awaited, because a statement costs
        // less than a round trip.
        let mut script = Vec::new();
        self.connection.sync(through).await?;
        if self.connection.begins_early() {
            self.begin().await?;
            script.extend(through.then(|| Statement::fixed("SET LOCAL synchronous_commit = on")));
        } else {
            script.push(Statement::fixed(self.connection.conn()?.0.begin_sql()));
        }
        let journaled = self.journaled().await?;
        let mut done = Committed { head: self.head.clone(), events: false, journaled: journaled.through };
        let mut gathered = Gathered::default();
        for records in journaled.records {
            gathered.add(records, None);
        }
        // Units of work must see the records acknowledged before them.
        if units.iter().any(|(work, _)| work.is_some()) {
            script.extend(self.append(mem::take(&mut gathered), &mut done, answers).await?);
        }
        let mut units_run = 0;
        for (index, (work, record)) in units.into_iter().enumerate() {
            if let Some(work) = work {
                script.extend((units_run > 0).then(|| Statement::fixed(RELEASE)));
                self.work(work, mem::take(&mut script)).await?;
                units_run += 1;
            }
            gathered.add(record(), Some(index));
        }
        script.extend((units_run > 0).then(|| Statement::fixed(RELEASE)));
        script.extend(self.append(gathered, &mut done, answers).await?);
        if done.journaled > self.journal.position() {
            script.push(journal::stored_statement(&self.hub, done.journaled));
        }
        script.push(Statement::fixed("COMMIT"));
        // Without a chain entry, the outcome of the commit could not be determined later.
        self.committing = done.head.clone().filter(|head| self.head.as_ref() != Some(head));
        self.connection.conn()?.script(COMMITTING, script).await?;
        Ok(done)
    }

    /// The journaled records. After a failure, only the database knows which of them are stored.
    async fn journaled(&mut self) -> Result<journal::Batch, StoreError> {
        if !self.journal.is_failing() {
            return Ok(self.journal.take());
        }
        let position = self.connection.conn()?.journal_position(&self.hub).await?;
        self.journal.read_again(position)
    }

    /// The statements that append events and audit entries.
    async fn append(
        &mut self,
        gathered: Gathered,
        done: &mut Committed,
        answers: &mut [Answer],
    ) -> Result<Vec<Statement>, StoreError> {
        let Gathered { records, owners } = gathered;
        let events = self.admit_events(records.events, &owners, answers).await?;
        done.events |= !events.is_empty();
        let chained = audit_chain::extend(&self.hub, done.head.as_ref(), records.audit);
        done.head = chained.last().map(ChainedEntry::head).or_else(|| done.head.take());
        let rows = self.connection.conn()?.0.rows_as();
        let mut statements = events::append_statements(events, rows);
        statements.extend(audit::append_statements(chained, rows));
        Ok(statements)
    }

    /// Runs one unit after the preceding statements; a unit that fails or panics is rolled back without
    /// affecting the others.
    async fn work(&mut self, work: Work, mut before: Vec<Statement>) -> Result<(), StoreError> {
        before.push(Statement::fixed("SAVEPOINT unit"));
        self.connection.conn()?.script("setting a savepoint", before).await?;
        let completed = match AssertUnwindSafe(work(self.connection.conn()?)).catch_unwind().await {
            Ok(done) => done.is_ok(),
            Err(_) => {
                tracing::error!("a unit of work panicked and was undone");
                false
            }
        };
        if !completed {
            self.connection.conn()?.execute("undoing a unit", "ROLLBACK TO unit", vec![]).await?;
        }
        Ok(())
    }

    /// The events that can be appended: new ones, of existing sessions. A request with an event of another
    /// session gets an error.
    async fn admit_events(
        &mut self,
        events: Vec<(SessionId, NewEvent)>,
        owners: &[Option<usize>],
        answers: &mut [Answer],
    ) -> Result<Vec<(SessionId, NewEvent)>, StoreError> {
        let unknown = self.journal.unknown(events.iter().map(|(session, _)| *session));
        let mut missing = HashSet::new();
        if !unknown.is_empty() {
            let existing = self.connection.conn()?.existing_sessions(&unknown).await?;
            missing.extend(unknown.into_iter().filter(|session| !existing.contains(session)));
            self.journal.learn(existing);
        }
        let fresh = match events.iter().any(|(_, event)| event.external_id.is_some()) {
            true => self.connection.conn()?.without_known_external_ids(&events).await?,
            false => vec![true; events.len()],
        };
        let mut admitted = Vec::with_capacity(events.len());
        for (index, (session, event)) in events.into_iter().enumerate() {
            if missing.contains(&session) {
                match owners[index].and_then(|owner| answers.get_mut(owner)) {
                    Some(answer) => answer.failure = Some(StoreError::NoSuchSession(session)),
                    None => tracing::error!(%session, "the journal contains an event of a deleted session"),
                }
            } else if fresh[index] {
                admitted.push((session, event));
            }
        }
        Ok(admitted)
    }
}
