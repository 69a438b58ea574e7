//! One transaction of the writer: units of work, then the records of all of them.

use std::collections::HashSet;
use std::iter;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use plexus_proto::api::AuditHead;
use plexus_proto::{NewEvent, SessionId};
use tokio::sync::watch;

use super::line::Undone;
use super::{Line, Record, Records, Reply, Request, Work};
use crate::audit_chain::{self, ChainedEntry};
use crate::conn::Statement;
use crate::{StoreError, audit, events};

pub(super) struct Batch {
    line: Line,
    hub: String,
    /// Newest link that is committed; the next one follows it.
    head: Option<AuditHead>,
    published: watch::Sender<Option<AuditHead>>,
    /// Sessions that were seen to exist.
    known: HashSet<SessionId>,
    healthy: Arc<AtomicBool>,
    /// Moved after each commit that holds events.
    events: watch::Sender<()>,
}

/// Sessions remembered before the memory is begun anew.
const KNOWN: usize = 100_000;

/// The last step of a transaction. When the connection breaks in it, nobody knows what became of it.
const COMMITTING: &str = "committing";

/// What one request will be told once the outcome of the transaction is known.
struct Answer {
    reply: Reply,
    failure: Option<StoreError>,
}

impl Batch {
    pub(super) fn new(
        line: Line,
        hub: String,
        head: Option<AuditHead>,
        published: watch::Sender<Option<AuditHead>>,
        healthy: Arc<AtomicBool>,
        events: watch::Sender<()>,
    ) -> Self {
        Self { line, hub, head, published, known: HashSet::new(), healthy, events }
    }

    pub(super) async fn close(self) {
        if let Err(error) = self.line.close().await {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }

    /// Carries out the requests and answers them, and says whether they were committed. Never fails
    /// as a whole: failures are answers.
    pub(super) async fn commit(&mut self, requests: &mut Vec<Request>) -> bool {
        let mut answers = Vec::with_capacity(requests.len());
        let mut units = Vec::with_capacity(requests.len());
        for Request { work, record, reply } in requests.drain(..) {
            answers.push(Answer { reply, failure: None });
            units.push((work, record));
        }
        let outcome = match self.line.patience() {
            None => self.transaction(units, &mut answers).await,
            Some(patience) => {
                let bounded = tokio::time::timeout(patience, self.transaction(units, &mut answers)).await;
                match bounded {
                    Ok(outcome) => outcome,
                    Err(_) => Err(self.line.out_of_patience().await),
                }
            }
        };
        let outcome = match outcome {
            Ok(head) => {
                self.publish(head);
                Ok(())
            }
            Err(error) => Err(self.undo(error).await),
        };
        self.healthy.store(outcome.is_ok(), Ordering::Relaxed);
        for answer in answers {
            let reply = match answer.reply {
                Reply::Answer(reply) => reply,
                Reply::Ticket(ticket) => {
                    ticket.0.store(outcome.is_err(), Ordering::Release);
                    continue;
                }
            };
            // A caller that is gone was told nothing, and needs nothing.
            let _ = reply.send(match (&outcome, answer.failure) {
                (Err(error), _) => Err(error.clone()),
                (Ok(()), Some(error)) => Err(error),
                (Ok(()), None) => Ok(()),
            });
        }
        outcome.is_ok()
    }

    fn publish(&mut self, head: Option<AuditHead>) {
        if head != self.head {
            self.head.clone_from(&head);
            self.published.send_replace(head);
        }
    }

    /// Cleans up after a failed transaction; the error as its callers are to be told.
    async fn undo(&mut self, error: StoreError) -> StoreError {
        // Should a session have gone since it was seen, the next look finds out.
        self.known.clear();
        tracing::error!(%error, source = ?std::error::Error::source(&error), "a transaction failed");
        match (self.line.roll_back().await, error) {
            (Undone::Unknown, StoreError::Query { doing: COMMITTING, source }) => {
                StoreError::Uncertain { source }
            }
            (_, error) => error,
        }
    }

    /// Begins the transaction. A connection that turns out to be dead is replaced: nothing was sent
    /// on it yet that would have to be sent again.
    async fn begin(&mut self) -> Result<(), StoreError> {
        self.restore().await?;
        if self.line.begin().await.is_ok() {
            return Ok(());
        }
        self.line.give_up().await;
        self.restore().await?;
        self.line.begin().await
    }

    async fn restore(&mut self) -> Result<(), StoreError> {
        if let Some(head) = self.line.restore(&self.hub).await? {
            self.publish(head);
        }
        Ok(())
    }

    async fn transaction(
        &mut self,
        units: Vec<(Option<Work>, Record)>,
        answers: &mut [Answer],
    ) -> Result<Option<AuditHead>, StoreError> {
        let mut all = Records::default();
        // For each event, which request it came from.
        let mut owners: Vec<usize> = Vec::new();
        // Else by the first unit of work; records alone are written in one go.
        let mut begun = self.line.begins_early();
        if begun {
            self.begin().await?;
        }
        for (place, (work, record)) in units.into_iter().enumerate() {
            if let Some(work) = work {
                self.work(work, !begun).await?;
                begun = true;
            }
            let records = record();
            all.audit.extend(records.audit);
            owners.extend(iter::repeat_n(place, records.events.len()));
            all.events.extend(records.events);
        }
        let events = self.admit_events(all.events, &owners, answers).await?;
        let chained = audit_chain::extend(&self.hub, self.head.as_ref(), all.audit);
        let head = chained.last().map(ChainedEntry::head).or_else(|| self.head.clone());
        let has_events = !events.is_empty();
        let conn = self.line.conn()?;
        let begin = (!begun).then(|| Statement::fixed(conn.0.begin_sql()));
        let script = begin
            .into_iter()
            .chain(events::append_statements(events))
            .chain(audit::append_statements(chained))
            .chain([Statement::fixed("COMMIT")])
            .collect();
        conn.script(COMMITTING, script).await?;
        if has_events {
            self.events.send_replace(());
        }
        Ok(head)
    }

    /// Runs one unit; one that fails or panics leaves nothing behind and does not disturb the others.
    async fn work(&mut self, work: Work, first: bool) -> Result<(), StoreError> {
        if first {
            self.line.begin().await?;
            // Nothing was written before it, so the whole transaction can be begun anew.
            if !self.completes(work).await? {
                self.line.conn()?.execute("undoing a unit", "ROLLBACK", vec![]).await?;
                self.line.begin().await?;
            }
            return Ok(());
        }
        self.line.conn()?.execute("setting a savepoint", "SAVEPOINT unit", vec![]).await?;
        if !self.completes(work).await? {
            self.line.conn()?.execute("undoing a unit", "ROLLBACK TO unit", vec![]).await?;
        }
        self.line.conn()?.execute("releasing a savepoint", "RELEASE unit", vec![]).await?;
        Ok(())
    }

    async fn completes(&mut self, work: Work) -> Result<bool, StoreError> {
        Ok(match AssertUnwindSafe(work(self.line.conn()?)).catch_unwind().await {
            Ok(done) => done.is_ok(),
            Err(_) => {
                tracing::error!("a unit of work panicked and was undone");
                false
            }
        })
    }

    /// The events that can be appended: those that are new, of sessions that exist. A request with
    /// an event of another session is told so.
    async fn admit_events(
        &mut self,
        events: Vec<(SessionId, NewEvent)>,
        owners: &[usize],
        answers: &mut [Answer],
    ) -> Result<Vec<(SessionId, NewEvent)>, StoreError> {
        let mut unknown: Vec<SessionId> = events
            .iter()
            .map(|(session, _)| *session)
            .filter(|session| !self.known.contains(session))
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            if self.known.len() > KNOWN {
                self.known.clear();
                unknown = events.iter().map(|(session, _)| *session).collect();
            }
            self.known.extend(self.line.conn()?.existing_sessions(&unknown).await?);
        }
        let fresh = match events.iter().any(|(_, event)| event.external_id.is_some()) {
            true => self.line.conn()?.without_known_external_ids(&events).await?,
            false => vec![true; events.len()],
        };
        let mut admitted = Vec::with_capacity(events.len());
        for (index, (session, event)) in events.into_iter().enumerate() {
            if !self.known.contains(&session) {
                if let Some(answer) = owners.get(index).and_then(|owner| answers.get_mut(*owner)) {
                    answer.failure = Some(StoreError::NoSuchSession(session));
                }
            } else if fresh[index] {
                admitted.push((session, event));
            }
        }
        Ok(admitted)
    }
}
