//! Calls that a node runs and holds until their end is committed here.
//!
//! Such a call has a row from before it is sent until its end is committed, and the same transaction deletes the row:
//! the process that deletes the row records how the call ended, and no other does. A queued call is sent only after its
//! row is marked as sent, so nothing ran if the row could be deleted as queued.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use plexus_kit::Stage;
use plexus_proto::{CallId, ErrorCode, NodeId};
use plexus_store::{NodeCallRecord, NodeCallState, Records};

use super::conclude::{Key, Settle, after};
use super::execute::guarded;
use super::prepare::PreparedCall;
use super::record::CallRecord;
use super::route::Route;
use super::stored_results::{self, StoredResult};
use super::{Inner, KeyReservation, bound};
use crate::{CallError, Outcome, ToolContext, ToolOutput};

/// The first and the longest interval between attempts to record the end of a call; it doubles in between.
const MIN_RETRY: Duration = Duration::from_millis(200);
const MAX_RETRY: Duration = Duration::from_secs(10);

type CallResult = Result<ToolOutput, CallError>;

/// How the wait for the end of a call ended.
enum WaitEnd {
    /// With a result that is still to be settled.
    With(CallResult),
    /// The end is already settled.
    Settled(CallError),
}

/// Calls that a task in this process waits for; that task settles them.
#[derive(Debug, Clone, Default)]
pub(super) struct AwaitedCalls(Arc<Mutex<HashSet<CallId>>>);

/// Marks a call as awaited until dropped.
struct AwaitedCall(AwaitedCalls, CallId);

impl AwaitedCalls {
    pub(super) fn contains(&self, call_id: CallId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&call_id)
    }

    fn wait(&self, call_id: CallId) -> AwaitedCall {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call_id);
        AwaitedCall(self.clone(), call_id)
    }
}

impl Drop for AwaitedCall {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

impl Inner {
    /// Runs the call on its node and settles its end.
    pub(super) async fn execute_on_node(
        self: &Arc<Self>,
        prepared: PreparedCall,
        context: ToolContext,
        record: CallRecord,
        reservation: Option<KeyReservation>,
    ) -> CallResult {
        let Some(route) = prepared.route.clone() else {
            return Err(CallError::new(
                ErrorCode::Internal,
                "a call without a node was about to be sent to one",
            ));
        };
        let waited = self.awaited.wait(record.call_id());
        let row = self.row(&prepared, &context, &record, reservation.as_ref(), &route);
        if let Err(error) = self.store_call(row, reservation.as_ref()).await {
            return self.finish(record, Err(error)).await;
        }
        let (node, call_id) = (route.node.id, record.call_id());
        let key = reservation.map(|reservation| Key { subject: reservation.subject, key: reservation.key });
        let result = match self.await_end(prepared, context, &record, key.as_ref(), &route).await {
            WaitEnd::Settled(error) => Err(error),
            WaitEnd::With(result) => {
                // The hub is stopping while the call continues: after its next start the hub receives the result.
                if result.as_ref().is_err_and(CallError::goes_on) {
                    return result;
                }
                let settled = self.settle_node_call(record.clone(), key.clone(), &result, Settle::Any).await;
                if let Err(error) = settled {
                    let error = error.after(&result);
                    self.retry_settling((record, key), result, node, waited);
                    return Err(error);
                }
                result
            }
        };
        self.release_on_node(node, call_id);
        result
    }

    /// Retries to settle a call whose end could not be recorded, until it succeeds. Meanwhile the node holds the
    /// result, and calls with the same key wait. If the hub stops first, its next start settles the call. The number of
    /// these tasks is bounded by the limit of a node's calls, because each still occupies its slot.
    fn retry_settling(
        self: &Arc<Self>,
        (record, key): (CallRecord, Option<Key>),
        result: CallResult,
        node: NodeId,
        waited: AwaitedCall,
    ) {
        let (inner, stopping) = (self.clone(), self.supervisor.stopping(Stage::Work));
        self.supervisor.spawn(Stage::Work, "end of a call on a node", async move {
            let (call_id, _waited, mut pause) = (record.call_id(), waited, MIN_RETRY);
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_RETRY),
                }
                match inner.settle_node_call(record.clone(), key.clone(), &result, Settle::Any).await {
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, %node, %call_id, "cannot record the end of a call; will retry");
                    }
                }
            }
            inner.release_on_node(node, call_id);
            inner.notify_concluded();
        });
    }

    /// The row that is stored before the call is sent.
    fn row(
        &self,
        prepared: &PreparedCall,
        context: &ToolContext,
        record: &CallRecord,
        reservation: Option<&KeyReservation>,
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
            idempotency: reservation
                .map(|reservation| (reservation.key.clone(), reservation.request_hash.clone())),
            via: record.via().to_owned(),
            deadline_at: after(queued_until.unwrap_or(now), context.allowed),
            queued_until,
            created_at: now,
        }
    }

    /// Stores the row of the call and reserves its key in one transaction.
    async fn store_call(
        &self,
        row: NodeCallRecord,
        reservation: Option<&KeyReservation>,
    ) -> Result<(), CallError> {
        let started = reservation
            .map(|reservation| reservation.record(row.call_id, StoredResult::Started { started: true }))
            .transpose()?;
        let now = self.clock.now();
        // Synced to disk before the call is sent: if a power cut lost the key, a retry would run the call twice.
        let work = self.store.transact_through(
            move |conn| {
                Box::pin(async move {
                    if let Some(started) = started
                        && !conn.reserve_idempotency_key(&started, now).await?
                    {
                        return Err(stored_results::reserved_concurrently());
                    }
                    conn.insert_node_call(&row).await.map_err(CallError::from)
                })
            },
            |_| Records::default(),
        );
        match work.await {
            Ok(given) => given.map_err(CallError::before_it_ran),
            // The row may have been committed: then the node is asked to run the call, and the key has its result.
            Err(error) => Err(CallError::from(error)),
        }
    }

    /// Runs the handler, which delivers the call to its node, until the call ends or is abandoned.
    async fn await_end(
        &self,
        prepared: PreparedCall,
        context: ToolContext,
        record: &CallRecord,
        key: Option<&Key>,
        route: &Route,
    ) -> WaitEnd {
        let PreparedCall { tool, arguments, .. } = prepared;
        let (cancel, sending, allowed) = (context.cancel.clone(), context.delivery.clone(), context.allowed);
        let (name, node) = (tool.spec().name.clone(), route.node.name.as_str());
        let mut run = std::pin::pin!(guarded(&name, tool.run(context, arguments)));
        let queued = async {
            let (Some(queue), Some(sending)) = (route.queue, &sending) else { return None };
            tokio::select! {
                () = sending.until_sent() => return None,
                () = tokio::time::sleep(queue) => {}
            }
            let error = queue_expired(node, queue);
            let expired = Err(error.clone());
            match self.settle_node_call(record.clone(), key.cloned(), &expired, Settle::Queued).await {
                Ok(true) => Some(error),
                // It has been sent; or the database is unavailable, and the wait continues until the deadline; or
                // another hub has expired it.
                Ok(false) | Err(_) => self.has_ended(record.call_id()).await.then_some(error),
            }
        };
        let abandoned = async {
            let expired_in_queue = tokio::select! {
                () = cancel.cancelled() => return WaitEnd::With(Err(cancelled())),
                expired_in_queue = queued => expired_in_queue,
            };
            if let Some(error) = expired_in_queue {
                return WaitEnd::Settled(error);
            }
            tokio::select! {
                () = cancel.cancelled() => WaitEnd::With(Err(cancelled())),
                () = tokio::time::sleep(allowed) => WaitEnd::With(Err(too_long(&name, node, allowed))),
            }
        };
        let ended = tokio::select! {
            biased;
            outcome = &mut run => Err(outcome),
            ended = abandoned => Ok(ended),
        };
        let (reason, outcome) = match ended {
            Err(outcome) if !cancel.is_cancelled() => return WaitEnd::With(self.output(outcome)),
            Err(outcome) => (cancelled(), Some(outcome)),
            Ok(settled @ WaitEnd::Settled(_) | settled @ WaitEnd::With(Ok(_))) => return settled,
            Ok(WaitEnd::With(Err(error))) => {
                cancel.cancel();
                (error, run.now_or_never())
            }
        };
        WaitEnd::With(match outcome {
            // It ended at the same moment, or its node has reported how it was stopped.
            Some(ended @ Ok(_)) => self.output(ended),
            Some(Err(ended)) if ended.goes_on() || ended.code != ErrorCode::Cancelled => Err(ended),
            Some(Err(ended)) if ended.nothing_ran() => Err(reason.hint("Nothing was run.").before_it_ran()),
            Some(Err(ended)) if ended.hint.is_some() => Err(ended),
            Some(Err(_)) | None => Err(reason.hint(format!(
                "{node} was asked to stop it and may still be running it. Check first, and call again only if it did not take \
                 effect."
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
            Outcome::Transact(_) => Err(CallError::new(
                ErrorCode::Internal,
                "a tool of a node tried to write to the hub's database",
            )),
        }
    }

    /// Notifies the node that it may forget the call.
    pub(super) fn release_on_node(&self, node: NodeId, call_id: CallId) {
        if let Some(nodes) = self.nodes.load().as_ref() {
            nodes.0.settled(node, call_id);
        }
    }
}

fn cancelled() -> CallError {
    CallError::new(ErrorCode::Cancelled, "the call was cancelled")
}

fn too_long(tool: &str, node: &str, allowed: Duration) -> CallError {
    let message = format!("{tool} did not finish within {} s on {node}", allowed.as_secs());
    CallError::new(ErrorCode::DeadlineExceeded, message)
}

/// The error of a queued call whose node did not connect in time.
pub(super) fn queue_expired(node: &str, queue: Duration) -> CallError {
    let message =
        format!("the node {node} did not connect within the {} s that the call was queued", queue.as_secs());
    CallError::new(ErrorCode::DeadlineExceeded, message)
        .hint("Nothing was run. To wait longer, call again with a larger queue_seconds.")
        .before_it_ran()
}
