//! The end of calls on machines: also of those that nobody waits for, because the hub that sent them is gone.

use std::time::Duration;

use plexus_proto::{CallId, ErrorCode, NodeId, Timestamp};
use plexus_store::{Conn, IdempotencyRecord, NodeCallRecord, NodeCallState, Records, StoreError};

use super::kept::Kept;
use super::on_node::not_in_time;
use super::record::CallRecord;
use super::{Dispatcher, Inner, bound};
use crate::{CallError, ToolContext, ToolOutput};

/// How long the end of a call that was sent is waited for after its time was up. Its machine may be away for so long.
const GIVEN_UP: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Between two looks for a call that another hub may have concluded.
const LOOK: Duration = Duration::from_secs(2);

/// A key that was taken.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) subject: String,
    pub(super) key: String,
}

/// Which row may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settle {
    Any,
    /// One that was not sent.
    Queued,
}

impl Dispatcher {
    /// Records the end of a call that nobody waits for, and what its key stands for now. False: it had ended before.
    pub async fn conclude(
        &self,
        call: NodeCallRecord,
        result: Result<ToolOutput, CallError>,
    ) -> Result<bool, CallError> {
        let limit = self.0.output_bytes.load(std::sync::atomic::Ordering::Relaxed);
        let result = result.and_then(|output| bound(output, limit));
        self.0.conclude(call, &result, Settle::Any).await
    }

    /// Concludes the calls that nobody waits for any more: those that waited for their machine for as long as they were to,
    /// and those whose machine was not heard of for too long. Says how many.
    pub async fn expire_node_calls(&self) -> Result<usize, CallError> {
        let now = self.0.clock.now();
        let given_up = now.checked_sub(GIVEN_UP).unwrap_or(Timestamp::MIN);
        let calls = self.0.store.read_committed().await?.overdue_node_calls(now, given_up).await?;
        let mut ended = 0;
        for call in calls {
            let (node, call_id) = (call.node_id, call.call_id);
            if self.0.waited.contains(call_id) {
                continue;
            }
            let (error, settle) = self.0.expiry(&call);
            if self.0.conclude(call, &Err(error), settle).await? {
                self.0.tell_settled(node, call_id);
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
        let settled = self.settle_on_node(record, key, result, settle).await?;
        self.tell_concluded();
        Ok(settled)
    }

    /// Whoever waits for what a key stands for looks again.
    pub(super) fn tell_concluded(&self) {
        self.concluded.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Why a call is over that nobody has heard of.
    fn expiry(&self, call: &NodeCallRecord) -> (CallError, Settle) {
        let name = self.name_of(call.node_id).unwrap_or_else(|| call.node_id.to_string());
        match (call.state, call.queued_until) {
            (NodeCallState::Queued, until) => {
                let waited = between(call.created_at, until.unwrap_or(call.created_at));
                (not_in_time(&name, waited), Settle::Queued)
            }
            (NodeCallState::Sent, _) => {
                let message = format!("the node {name} was not heard of since the call was sent to it");
                let error = CallError::new(ErrorCode::Interrupted, message)
                    .hint("It may have done its work. Look first, and call again only if it has not.");
                (error, Settle::Any)
            }
        }
    }

    fn name_of(&self, node: NodeId) -> Option<String> {
        let nodes = self.nodes.load();
        let all = nodes.as_ref()?.0.all();
        all.iter().find(|entry| entry.id == node).map(|entry| entry.name.clone())
    }

    /// In one transaction: the row goes, its key stands for the result, and the end is in the record. False: somebody else has
    /// done so, or it was sent meanwhile; then nothing is written.
    pub(super) async fn settle_on_node(
        &self,
        record: CallRecord,
        key: Option<Key>,
        result: &Result<ToolOutput, CallError>,
        settle: Settle,
    ) -> Result<bool, CallError> {
        let kept = Kept::of(result).map(|kept| kept.text()).transpose()?;
        let (call_id, ended) = (record.call_id(), record.ended(result.as_ref()));
        // On the disk before the node is told to forget the call: after a power cut nobody else could say how it ended.
        self.store
            .transact_through(
                move |conn| {
                    Box::pin(async move {
                        let gone = match settle {
                            Settle::Any => conn.delete_node_call(call_id).await?,
                            Settle::Queued => conn.withdraw_node_call(call_id).await?,
                        };
                        if gone && let Some(key) = key {
                            set_key(conn, call_id, &key, kept.as_deref()).await?;
                        }
                        Ok::<bool, CallError>(gone)
                    })
                },
                move |settled| match settled {
                    Ok(true) => record.complete(ended),
                    Ok(false) | Err(_) => Records::default(),
                },
            )
            .await?
    }

    /// What a key stands for, once the call that took it has ended on its machine, if it is on one. None: the key is free again.
    pub(super) async fn after_end(
        &self,
        mut earlier: IdempotencyRecord,
        context: &ToolContext,
    ) -> Result<Option<IdempotencyRecord>, CallError> {
        let given_up = tokio::time::sleep(context.allowed);
        tokio::pin!(given_up);
        let mut concluded = self.concluded.subscribe();
        while Kept::is_begun(&earlier.result) {
            concluded.borrow_and_update();
            let there = self.store.read_committed().await?.node_call(earlier.call_id).await?.is_some();
            match self.earlier(&earlier.subject, &earlier.key).await? {
                Some(now) => earlier = now,
                None => return Ok(None),
            }
            if !there {
                break;
            }
            tokio::select! {
                _ = concluded.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
                () = context.cancel.cancelled() => {
                    return Err(CallError::new(ErrorCode::Cancelled, "the call was cancelled").hint("Nothing was run now."));
                }
                () = &mut given_up => return Err(still_there()),
            }
        }
        Ok(Some(earlier))
    }
}

/// The key may have been forgotten, and taken by another call since.
async fn set_key(conn: &mut Conn, call_id: CallId, key: &Key, kept: Option<&str>) -> Result<(), StoreError> {
    let Key { subject, key } = key;
    let of_call = conn.idempotent_result(subject, key).await?.is_some_and(|taken| taken.call_id == call_id);
    match kept {
        _ if !of_call => Ok(()),
        Some(kept) => conn.set_idempotent_result(subject, key, kept).await,
        None => conn.free_idempotency_key(subject, key).await,
    }
}

pub(super) fn after(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

fn still_there() -> CallError {
    CallError::new(
        ErrorCode::Unavailable,
        "the first call with this idempotency key is with its node, and has not ended",
    )
    .hint("Nothing was run now. Call again with the same key to get its result.")
    .before_it_ran()
}
