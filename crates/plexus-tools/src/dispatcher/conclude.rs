//! Settles the calls on nodes, including those without a waiting caller because the hub that sent them has stopped.

use std::time::Duration;

use plexus_proto::{CallId, ErrorCode, NodeId, Timestamp};
use plexus_store::{Conn, IdempotencyRecord, NodeCallRecord, NodeCallState, Records, StoreError};

use super::node_call::queue_expired;
use super::record::CallRecord;
use super::stored_results::StoredResult;
use super::{Dispatcher, Inner, bound};
use crate::{CallError, ToolContext, ToolOutput};

/// How long after its deadline a sent call is still expected to report its end: its node may be offline for that long.
const REPORT_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The interval of checks for a call that another hub may have settled.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A reserved idempotency key.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) subject: String,
    pub(super) key: String,
}

/// Which state of the row allows its deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settle {
    Any,
    /// Only a call that was not sent.
    Queued,
}

impl Dispatcher {
    /// Records the end of a call without a waiting caller and stores its outcome under its key. Returns false if it had
    /// already ended.
    pub async fn conclude(
        &self,
        call: NodeCallRecord,
        result: Result<ToolOutput, CallError>,
    ) -> Result<bool, CallError> {
        let limit = self.0.output_bytes.load(std::sync::atomic::Ordering::Relaxed);
        let result = result.and_then(|output| bound(output, limit));
        self.0.conclude(call, &result, Settle::Any).await
    }

    /// Settles overdue calls without a waiting caller: those that were queued for longer than their limit, and those
    /// whose node has not reported for too long. Returns their number.
    pub async fn expire_node_calls(&self) -> Result<usize, CallError> {
        let now = self.0.clock.now();
        let unreported_since = now.checked_sub(REPORT_TIMEOUT).unwrap_or(Timestamp::MIN);
        let calls = self.0.store.read_committed().await?.overdue_node_calls(now, unreported_since).await?;
        let mut ended = 0;
        for call in calls {
            let (node, call_id) = (call.node_id, call.call_id);
            if self.0.awaited.contains(call_id) {
                continue;
            }
            let (error, settle) = self.0.expiry(&call);
            if self.0.conclude(call, &Err(error), settle).await? {
                self.0.release_on_node(node, call_id);
                ended += 1;
            }
        }
        Ok(ended)
    }
}

impl Inner {
    async fn conclude(
        &self,
        call: NodeCallRecord,
        result: &Result<ToolOutput, CallError>,
        settle: Settle,
    ) -> Result<bool, CallError> {
        let key =
            call.idempotency.as_ref().map(|(key, _)| Key { subject: call.subject.clone(), key: key.clone() });
        let record = CallRecord::of_row(&call, self.name_of(call.node_id), self.clock.clone());
        let settled = self.settle_node_call(record, key, result, settle).await?;
        self.notify_concluded();
        Ok(settled)
    }

    /// Wakes the calls that wait for the outcome of a key.
    pub(super) fn notify_concluded(&self) {
        self.concluded.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The error of an overdue call, and the state its row must be in.
    fn expiry(&self, call: &NodeCallRecord) -> (CallError, Settle) {
        let name = self.name_of(call.node_id).unwrap_or_else(|| call.node_id.to_string());
        match (call.state, call.queued_until) {
            (NodeCallState::Queued, until) => {
                let waited = between(call.created_at, until.unwrap_or(call.created_at));
                (queue_expired(&name, waited), Settle::Queued)
            }
            (NodeCallState::Sent, _) => {
                let message = format!("the node {name} has not reported since the call was sent to it");
                let error = CallError::new(ErrorCode::Interrupted, message)
                    .hint("It may have taken effect. Check first, and call again only if it did not.");
                (error, Settle::Any)
            }
        }
    }

    fn name_of(&self, node: NodeId) -> Option<String> {
        let nodes = self.nodes.load();
        let all = nodes.as_ref()?.0.all();
        all.iter().find(|entry| entry.id == node).map(|entry| entry.name.clone())
    }

    /// Deletes the row, stores the result under the key and records the end, in one transaction. Returns false, having
    /// written nothing, if another process has settled the call or if it was sent meanwhile.
    pub(super) async fn settle_node_call(
        &self,
        record: CallRecord,
        key: Option<Key>,
        result: &Result<ToolOutput, CallError>,
        settle: Settle,
    ) -> Result<bool, CallError> {
        let stored = StoredResult::of(result).map(|stored| stored.text()).transpose()?;
        let (call_id, ended) = (record.call_id(), record.ended(result.as_ref()));
        // Synced to disk before the node forgets the call: after a power cut no other copy of its result exists.
        self.store
            .transact_through(
                move |conn| {
                    Box::pin(async move {
                        let deleted = match settle {
                            Settle::Any => conn.delete_node_call(call_id).await?,
                            Settle::Queued => conn.withdraw_node_call(call_id).await?,
                        };
                        if deleted && let Some(key) = key {
                            set_key(conn, call_id, &key, stored.as_deref()).await?;
                        }
                        Ok::<bool, CallError>(deleted)
                    })
                },
                move |settled| match settled {
                    Ok(true) => record.complete(ended),
                    Ok(false) | Err(_) => Records::default(),
                },
            )
            .await?
    }

    /// Waits until the call that reserved the key has ended on its node, if it runs on one, and returns the stored
    /// outcome; none if the key was released.
    pub(super) async fn after_end(
        &self,
        mut earlier: IdempotencyRecord,
        context: &ToolContext,
    ) -> Result<Option<IdempotencyRecord>, CallError> {
        let timeout = tokio::time::sleep(context.allowed);
        tokio::pin!(timeout);
        let mut concluded = self.concluded.subscribe();
        while StoredResult::is_started(&earlier.result) {
            concluded.borrow_and_update();
            let running = self.store.read_committed().await?.node_call(earlier.call_id).await?.is_some();
            match self.earlier(&earlier.subject, &earlier.key).await? {
                Some(now) => earlier = now,
                None => return Ok(None),
            }
            if !running {
                break;
            }
            tokio::select! {
                _ = concluded.changed() => {}
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                () = context.cancel.cancelled() => {
                    return Err(CallError::new(ErrorCode::Cancelled, "the call was cancelled").hint("Nothing was run now."));
                }
                () = &mut timeout => return Err(still_running()),
            }
        }
        Ok(Some(earlier))
    }
}

/// Stores the outcome under the key, or releases it. Does nothing if the key has expired and another call has reserved
/// it.
async fn set_key(
    conn: &mut Conn,
    call_id: CallId,
    key: &Key,
    stored: Option<&str>,
) -> Result<(), StoreError> {
    let Key { subject, key } = key;
    let of_call = conn.idempotent_result(subject, key).await?.is_some_and(|entry| entry.call_id == call_id);
    match stored {
        _ if !of_call => Ok(()),
        Some(stored) => conn.store_idempotent_result(subject, key, stored).await,
        None => conn.release_idempotency_key(subject, key).await,
    }
}

pub(super) fn after(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

fn still_running() -> CallError {
    CallError::new(
        ErrorCode::Unavailable,
        "the first call with this idempotency key is still running on its node",
    )
    .hint("Nothing was run now. Call again with the same key to get its result.")
    .before_it_ran()
}
