//! One transaction of the writer: units of work, then the records of all of them.

use std::collections::HashMap;
use std::iter;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use plexus_proto::api::AuditHead;
use plexus_proto::{NewEvent, SessionId};
use tokio::sync::{oneshot, watch};

use super::{Records, Request};
use crate::audit_chain::{self, ChainedEntry};
use crate::{Conn, StoreError};

pub(super) struct Batch {
    conn: Conn,
    hub: String,
    /// Newest link that is committed; the next one follows it.
    head: Option<AuditHead>,
    published: watch::Sender<Option<AuditHead>>,
}

/// What one request will be told once the outcome of the transaction is known.
struct Answer {
    reply: Option<oneshot::Sender<Result<(), StoreError>>>,
    failure: Option<StoreError>,
}

impl Batch {
    pub(super) fn new(
        conn: Conn,
        hub: String,
        head: Option<AuditHead>,
        published: watch::Sender<Option<AuditHead>>,
    ) -> Self {
        Self { conn, hub, head, published }
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
                tracing::error!(%error, source = ?std::error::Error::source(error), "a transaction failed");
                if let Err(error) = self.conn.execute("rolling back", "ROLLBACK", vec![]).await {
                    tracing::debug!(%error, "nothing to roll back");
                }
            }
        }
        for answer in answers {
            let Some(reply) = answer.reply else { continue };
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
        let mut begun = self.conn.execute("beginning a transaction", self.conn.0.begin_sql(), vec![]).await;
        let mut all = Records::default();
        let mut worked = false;
        // For each event, which request it came from.
        let mut owners: Vec<usize> = Vec::new();
        for request in requests {
            if begun.is_ok()
                && let Some(work) = request.work
            {
                begun = self.work(work, !worked).await.map(|()| 0);
                worked = true;
            }
            // After a failure the rest are only collected, so that each of them is answered.
            if begun.is_ok() {
                let records = (request.record)();
                all.audit.extend(records.audit);
                owners.extend(iter::repeat_n(answers.len(), records.events.len()));
                all.events.extend(records.events);
            }
            answers.push(Answer { reply: request.reply, failure: None });
        }
        begun?;
        for (event, failure) in self.append_events(all.events).await? {
            if let Some(answer) = owners.get(event).and_then(|owner| answers.get_mut(*owner)) {
                answer.failure = Some(failure);
            }
        }
        let chained = audit_chain::extend(&self.hub, self.head.as_ref(), all.audit);
        let head = chained.last().map(ChainedEntry::head).or_else(|| self.head.clone());
        self.conn.insert_audit(chained).await?;
        self.conn.execute("committing", "COMMIT", vec![]).await?;
        Ok(head)
    }

    /// Runs one unit; one that fails or panics leaves nothing behind and does not disturb the others.
    async fn work(&mut self, work: super::Work, first: bool) -> Result<(), StoreError> {
        if first {
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

    /// Gives each event its place in its session and inserts all; returns those that had no session.
    async fn append_events(
        &mut self,
        events: Vec<(SessionId, NewEvent)>,
    ) -> Result<Vec<(usize, StoreError)>, StoreError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let fresh = self.conn.without_known_external_ids(&events).await?;
        let mut counts: HashMap<SessionId, (i64, i64)> = HashMap::new();
        for (index, (session, event)) in events.iter().enumerate() {
            if fresh[index] {
                let entry = counts.entry(*session).or_insert((0, 0));
                entry.0 += 1;
                entry.1 = entry.1.max(event.at.as_millisecond());
            }
        }
        let mut next_seq = self.conn.reserve_seqs(counts).await?;
        let mut rows = Vec::with_capacity(events.len());
        let mut failures = Vec::new();
        for (index, (session, event)) in events.into_iter().enumerate() {
            if !fresh[index] {
                continue;
            }
            match next_seq.get_mut(&session) {
                Some(next) => {
                    rows.push((session, *next, event));
                    *next += 1;
                }
                None => failures.push((index, StoreError::NoSuchSession(session))),
            }
        }
        self.conn.insert_events(rows).await?;
        Ok(failures)
    }
}
