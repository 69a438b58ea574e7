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

use super::{Records, Reply, Request};
use crate::audit_chain::{self, ChainedEntry};
use crate::conn::Statement;
use crate::{Conn, StoreError, audit, events};

pub(super) struct Batch {
    conn: Conn,
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

/// What one request will be told once the outcome of the transaction is known.
struct Answer {
    reply: Reply,
    failure: Option<StoreError>,
}

impl Batch {
    pub(super) fn new(
        conn: Conn,
        hub: String,
        head: Option<AuditHead>,
        published: watch::Sender<Option<AuditHead>>,
        healthy: Arc<AtomicBool>,
        events: watch::Sender<()>,
    ) -> Self {
        Self { conn, hub, head, published, known: HashSet::new(), healthy, events }
    }

    pub(super) async fn close(self) {
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }

    /// Carries out the requests and answers them. Never fails as a whole: failures are answers.
    pub(super) async fn commit(&mut self, requests: &mut Vec<Request>) {
        let mut answers = Vec::with_capacity(requests.len());
        let outcome = self.transaction(requests.drain(..), &mut answers).await;
        match &outcome {
            Ok(head) if *head != self.head => {
                self.head.clone_from(head);
                self.published.send_replace(head.clone());
            }
            Ok(_) => {}
            Err(error) => {
                // Should a session have gone since it was seen, the next look finds out.
                self.known.clear();
                tracing::error!(%error, source = ?std::error::Error::source(error), "a transaction failed");
                if let Err(error) = self.conn.execute("rolling back", "ROLLBACK", vec![]).await {
                    tracing::debug!(%error, "nothing to roll back");
                }
            }
        }
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
                (Ok(_), Some(error)) => Err(error),
                (Ok(_), None) => Ok(()),
            });
        }
    }

    async fn transaction(
        &mut self,
        requests: impl Iterator<Item = Request>,
        answers: &mut Vec<Answer>,
    ) -> Result<Option<AuditHead>, StoreError> {
        let mut all = Records::default();
        // For each event, which request it came from.
        let mut owners: Vec<usize> = Vec::new();
        // Begun by the first unit of work; records alone are written in one go.
        let mut begun = false;
        let mut failure = None;
        for request in requests {
            // After a failure the rest are only collected, so that each of them is answered.
            if failure.is_none()
                && let Some(work) = request.work
            {
                failure = self.work(work, !begun).await.err();
                begun = true;
            }
            if failure.is_none() {
                let records = (request.record)();
                all.audit.extend(records.audit);
                owners.extend(iter::repeat_n(answers.len(), records.events.len()));
                all.events.extend(records.events);
            }
            answers.push(Answer { reply: request.reply, failure: None });
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let events = self.admit_events(all.events, &owners, answers).await?;
        let chained = audit_chain::extend(&self.hub, self.head.as_ref(), all.audit);
        let head = chained.last().map(ChainedEntry::head).or_else(|| self.head.clone());
        let has_events = !events.is_empty();
        let begin = (!begun).then(|| Statement::fixed(self.conn.0.begin_sql()));
        let script = begin
            .into_iter()
            .chain(events::append_statements(events))
            .chain(audit::append_statements(chained))
            .chain([Statement::fixed("COMMIT")])
            .collect();
        self.conn.script("committing", script).await?;
        if has_events {
            self.events.send_replace(());
        }
        Ok(head)
    }

    /// Runs one unit; one that fails or panics leaves nothing behind and does not disturb the others.
    async fn work(&mut self, work: super::Work, first: bool) -> Result<(), StoreError> {
        if first {
            self.conn.execute("beginning a transaction", self.conn.0.begin_sql(), vec![]).await?;
            // Nothing was written before it, so the whole transaction can be begun anew.
            if !self.completes(work).await {
                self.conn.execute("undoing a unit", "ROLLBACK", vec![]).await?;
                self.conn.execute("beginning a transaction", self.conn.0.begin_sql(), vec![]).await?;
            }
            return Ok(());
        }
        self.conn.execute("setting a savepoint", "SAVEPOINT unit", vec![]).await?;
        if !self.completes(work).await {
            self.conn.execute("undoing a unit", "ROLLBACK TO unit", vec![]).await?;
        }
        self.conn.execute("releasing a savepoint", "RELEASE unit", vec![]).await?;
        Ok(())
    }

    async fn completes(&mut self, work: super::Work) -> bool {
        match AssertUnwindSafe(work(&mut self.conn)).catch_unwind().await {
            Ok(done) => done.is_ok(),
            Err(_) => {
                tracing::error!("a unit of work panicked and was undone");
                false
            }
        }
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
            self.known.extend(self.conn.existing_sessions(&unknown).await?);
        }
        let fresh = match events.iter().any(|(_, event)| event.external_id.is_some()) {
            true => self.conn.without_known_external_ids(&events).await?,
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
