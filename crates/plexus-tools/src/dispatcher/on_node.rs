//! Calls that a machine runs and keeps until their end is committed here.
//!
//! There is a row of such a call from before it is sent until its end is committed, and it goes in that very transaction:
//! whoever deletes the row tells how the call ended, and nobody else does. A call that was queued is sent only after its
//! row says so; so of one whose row could be deleted as queued it is certain that nothing ran.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use plexus_kit::Stage;
use plexus_proto::{CallId, ErrorCode, NodeId};
use plexus_store::{NodeCallRecord, NodeCallState, Records};

use super::conclude::{Key, Settle, after};
use super::handling::guarded;
use super::kept::{self, Kept};
use super::prepare::Prepared;
use super::record::CallRecord;
use super::route::Route;
use super::{Inner, Keep, bound};
use crate::{CallError, Outcome, ToolContext, ToolOutput};

/// Between two attempts to record the end of a call, doubled up to the second.
const RETRY: Duration = Duration::from_millis(200);
const RETRY_MOST: Duration = Duration::from_secs(10);

type CallResult = Result<ToolOutput, CallError>;

/// How the wait for a call ended.
enum Ended {
    /// To be settled.
    With(CallResult),
    /// Settled already.
    Settled(CallError),
}

/// Calls that somebody here waits for: whoever waits also ends them.
#[derive(Debug, Clone, Default)]
pub(super) struct Waited(Arc<Mutex<HashSet<CallId>>>);

/// Somebody waits.
struct Wait(Waited, CallId);

impl Waited {
    pub(super) fn contains(&self, call_id: CallId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&call_id)
    }

    fn wait(&self, call_id: CallId) -> Wait {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call_id);
        Wait(self.clone(), call_id)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

impl Inner {
    /// Has the machine run the call, and settles its end.
    pub(super) async fn execute_on_node(
        self: &Arc<Self>,
        prepared: Prepared,
        context: ToolContext,
        record: CallRecord,
        keep: Option<Keep>,
    ) -> CallResult {
        let Some(route) = prepared.route.clone() else {
            return Err(CallError::new(
                ErrorCode::Internal,
                "a call that is for no machine was to be sent to one",
            ));
        };
        let waited = self.waited.wait(record.call_id());
        let row = self.row(&prepared, &context, &record, keep.as_ref(), &route);
        if let Err(error) = self.give(row, keep.as_ref()).await {
            return self.finish(record, Err(error)).await;
        }
        let (node, call_id) = (route.node.id, record.call_id());
        let key = keep.map(|keep| Key { subject: keep.subject, key: keep.key });
        let result = match self.wait(prepared, context, &record, key.as_ref(), &route).await {
            Ended::Settled(error) => Err(error),
            Ended::With(result) => {
                // The hub stops, and the call does not: the next start of the hub hears how it ended.
                if result.as_ref().is_err_and(CallError::goes_on) {
                    return result;
                }
                let settled = self.settle_on_node(record.clone(), key.clone(), &result, Settle::Any).await;
                if let Err(error) = settled {
                    let error = error.after(&result);
                    self.settle_later((record, key), result, node, waited);
                    return Err(error);
                }
                result
            }
        };
        self.tell_settled(node, call_id);
        result
    }

    /// Settles a call whose end could not be recorded, as often as it takes: until then its machine keeps the result, and who
    /// asks with the same key waits. A hub that stops before leaves it to its next start. There are no more of these than a
    /// machine may have calls, since each keeps its place among them.
    fn settle_later(
        self: &Arc<Self>,
        (record, key): (CallRecord, Option<Key>),
        result: CallResult,
        node: NodeId,
        waited: Wait,
    ) {
        let (inner, stopping) = (self.clone(), self.supervisor.stopping(Stage::Work));
        self.supervisor.spawn(Stage::Work, "end of a call on a node", async move {
            let (call_id, _waited, mut pause) = (record.call_id(), waited, RETRY);
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MOST),
                }
                match inner.settle_on_node(record.clone(), key.clone(), &result, Settle::Any).await {
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, %node, %call_id, "the end of a call cannot be recorded; it is tried again");
                    }
                }
            }
            inner.tell_settled(node, call_id);
            inner.tell_concluded();
        });
    }

    /// What is stored of a call before it is sent.
    fn row(
        &self,
        prepared: &Prepared,
        context: &ToolContext,
        record: &CallRecord,
        keep: Option<&Keep>,
        route: &Route,
    ) -> NodeCallRecord {
        let (principal, now) = (&context.principal, self.clock.now());
        let queued_until = route.queue.map(|queue| after(now, queue));
        NodeCallRecord {
            call_id: context.call_id,
            node_id: route.node.id,
            store_id: route.node.store_id.filter(|_| queued_until.is_none()),
            state: if queued_until.is_some() { NodeCallState::Queued } else { NodeCallState::Sent },
            subject: principal.subject().to_owned(),
            profile: principal.profile().map(str::to_owned),
            token_id: principal.token_id(),
            session_id: context.session_id,
            tool: prepared.tool.spec().name.to_string(),
            arguments: prepared.arguments.to_string(),
            idempotency: keep.map(|keep| (keep.key.clone(), keep.request_hash.clone())),
            via: record.via().to_owned(),
            deadline_at: after(queued_until.unwrap_or(now), context.allowed),
            queued_until,
            created_at: now,
        }
    }

    /// Stores the call, and takes its key with it.
    async fn give(&self, row: NodeCallRecord, keep: Option<&Keep>) -> Result<(), CallError> {
        let begun = keep.map(|keep| keep.record(row.call_id, Kept::Begun { begun: true })).transpose()?;
        let now = self.clock.now();
        // On the disk before it is sent: a key that a power cut takes away would let a retry run it twice.
        let work = self.store.transact_through(
            move |conn| {
                Box::pin(async move {
                    if let Some(begun) = begun
                        && !conn.insert_idempotent_result(&begun, now).await?
                    {
                        return Err(kept::taken_first());
                    }
                    conn.insert_node_call(&row).await.map_err(CallError::from)
                })
            },
            |_| Records::default(),
        );
        match work.await {
            Ok(given) => given.map_err(CallError::before_it_ran),
            // The row may be there all the same: then the machine is asked to run it, and its key says how that went.
            Err(error) => Err(CallError::from(error)),
        }
    }

    /// Runs the handler, which brings the call to its machine, until it ends or is given up.
    async fn wait(
        &self,
        prepared: Prepared,
        context: ToolContext,
        record: &CallRecord,
        key: Option<&Key>,
        route: &Route,
    ) -> Ended {
        let Prepared { tool, arguments, .. } = prepared;
        let (cancel, sending, allowed) = (context.cancel.clone(), context.sending.clone(), context.allowed);
        let (name, node) = (tool.spec().name.clone(), route.node.name.as_str());
        let mut run = std::pin::pin!(guarded(&name, tool.run(context, arguments)));
        let queued = async {
            let (Some(queue), Some(sending)) = (route.queue, &sending) else { return None };
            tokio::select! {
                () = sending.until_sent() => return None,
                () = tokio::time::sleep(queue) => {}
            }
            let error = not_in_time(node, queue);
            let expired = Err(error.clone());
            match self.settle_on_node(record.clone(), key.cloned(), &expired, Settle::Queued).await {
                Ok(true) => Some(error),
                // It is on its way; or the database is away, and it is waited for until its time is up; or another hub has
                // ended it for the same reason.
                Ok(false) | Err(_) => self.has_ended(record.call_id()).await.then_some(error),
            }
        };
        let given_up = async {
            let in_vain = tokio::select! {
                () = cancel.cancelled() => return Ended::With(Err(cancelled())),
                in_vain = queued => in_vain,
            };
            if let Some(error) = in_vain {
                return Ended::Settled(error);
            }
            tokio::select! {
                () = cancel.cancelled() => Ended::With(Err(cancelled())),
                () = tokio::time::sleep(allowed) => Ended::With(Err(too_long(&name, node, allowed))),
            }
        };
        let ended = tokio::select! {
            biased;
            outcome = &mut run => Err(outcome),
            ended = given_up => Ok(ended),
        };
        let (said, outcome) = match ended {
            Err(outcome) if !cancel.is_cancelled() => return Ended::With(self.output(outcome)),
            Err(outcome) => (cancelled(), Some(outcome)),
            Ok(settled @ Ended::Settled(_) | settled @ Ended::With(Ok(_))) => return settled,
            Ok(Ended::With(Err(error))) => {
                cancel.cancel();
                (error, run.now_or_never())
            }
        };
        Ended::With(match outcome {
            // It ended in the same moment, or its machine has said how it was stopped.
            Some(ended @ Ok(_)) => self.output(ended),
            Some(Err(ended)) if ended.goes_on() || ended.code != ErrorCode::Cancelled => Err(ended),
            Some(Err(ended)) if ended.nothing_ran() => Err(said.hint("Nothing was run.").before_it_ran()),
            Some(Err(ended)) if ended.hint.is_some() => Err(ended),
            Some(Err(_)) | None => Err(said.hint(format!(
                "{node} is told to stop it, and may be running it still. Look first, and call again only if it has not done \
                 its work."
            ))),
        })
    }

    async fn has_ended(&self, call_id: CallId) -> bool {
        let Ok(mut reader) = self.store.read_committed().await else { return false };
        matches!(reader.node_call(call_id).await, Ok(None))
    }

    fn output(&self, outcome: Result<Outcome, CallError>) -> CallResult {
        match outcome? {
            Outcome::Ready(output) => bound(output, self.output_bytes.load(Ordering::Relaxed)),
            Outcome::Transact(_) => {
                Err(CallError::new(ErrorCode::Internal, "a tool of a machine wrote to the hub"))
            }
        }
    }

    /// The machine need not keep a call any longer.
    pub(super) fn tell_settled(&self, node: NodeId, call_id: CallId) {
        if let Some(nodes) = self.nodes.load().as_ref() {
            nodes.0.settled(node, call_id);
        }
    }
}

fn cancelled() -> CallError {
    CallError::new(ErrorCode::Cancelled, "the call was cancelled")
}

fn too_long(tool: &str, node: &str, allowed: Duration) -> CallError {
    let message = format!("{tool} did not end within {} s on {node}", allowed.as_secs());
    CallError::new(ErrorCode::DeadlineExceeded, message)
}

/// Of a call that waited for its machine in vain.
pub(super) fn not_in_time(node: &str, queue: Duration) -> CallError {
    let message =
        format!("the node {node} did not come within the {} s that the call waited for it", queue.as_secs());
    CallError::new(ErrorCode::DeadlineExceeded, message)
        .hint("Nothing was run. Call again, with a larger queue_seconds to wait longer.")
        .before_it_ran()
}
