//! Calls queued in the database: those of earlier hub processes, and those that wait for their machine.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Stage;
use plexus_proto::node::{Call, CallOutcome, Caller};
use plexus_proto::{CallId, Timestamp, TokenId};
use plexus_store::{Conn, NodeCallRecord, NodeCallState, StoreError};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Gateway;
use crate::nodes::call::{OutgoingCall, Undelivered, expired, interrupted, revoked};
use crate::nodes::unit::Unit;

/// Delay between two attempts to record the end of a call; doubles up to the maximum.
const RETRY_DELAY: Duration = Duration::from_millis(200);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// State of a call in the database just before it is sent.
enum SendDecision {
    Sent(Box<NodeCallRecord>),
    /// It has already ended.
    Ended,
    /// It was queued, and its caller's token has been revoked.
    Revoked,
    /// It was queued, and its waiting time has passed.
    Overdue,
}

impl Gateway {
    /// Sends the queued calls if the machine is linked.
    pub(super) fn send_queued(&self, unit: &Arc<Unit>) {
        let Some((epoch, store, calls)) = unit.calls_to_record().filter(|(_, _, calls)| !calls.is_empty())
        else {
            return;
        };
        self.record_and_send(unit, epoch, store, calls);
    }

    /// Records for each of these calls which store it is sent to, and then sends it over this link.
    pub(super) fn record_and_send(&self, unit: &Arc<Unit>, epoch: u64, store: Uuid, calls: Vec<CallId>) {
        let (gateway, unit) = (self.clone(), unit.clone());
        self.0.supervisor.spawn(Stage::Work, "calls to a node", async move {
            for call in calls {
                if let Err(error) = gateway.send_one(&unit, epoch, store, call).await {
                    // They are sent when the node reconnects or the hub restarts.
                    tracing::error!(%error, node = %unit.id, "cannot read the calls that are queued for a node");
                    return;
                }
            }
        });
    }

    async fn send_one(&self, unit: &Unit, epoch: u64, store: Uuid, call: CallId) -> Result<(), StoreError> {
        let (node, now) = (unit.id, self.0.clock.now());
        let decision = self
            .0
            .store
            .write(move |conn| {
                Box::pin(async move {
                    let Some(row) = conn.node_call(call).await?.filter(|row| row.node_id == node) else {
                        return Ok(SendDecision::Ended);
                    };
                    if row.state == NodeCallState::Queued && is_revoked(conn, row.token_id, now).await? {
                        return Ok(SendDecision::Revoked);
                    }
                    let overdue = row.queued_until.is_some_and(|until| until <= now);
                    if row.state == NodeCallState::Queued && overdue {
                        return Ok(SendDecision::Overdue);
                    }
                    conn.send_node_call(call, store).await?;
                    Ok(SendDecision::Sent(Box::new(row)))
                })
            })
            .await?;
        let row = match decision {
            // Reported by whoever ended it.
            SendDecision::Ended => return Ok(()),
            SendDecision::Revoked if unit.is_orphan(call) => {
                self.conclude(unit, call, revoked()).await;
                return Ok(());
            }
            SendDecision::Revoked => {
                unit.refuse(call, &Undelivered::Revoked);
                return Ok(());
            }
            // After a hub start: calls whose waiting time passed while no hub ran are not sent.
            SendDecision::Overdue if unit.is_orphan(call) => {
                self.conclude(unit, call, expired()).await;
                return Ok(());
            }
            // The waiting caller is about to report this.
            SendDecision::Overdue => return Ok(()),
            SendDecision::Sent(row) => *row,
        };
        if unit.is_orphan(call) {
            match self.outgoing(row) {
                Some(read) => unit.mark_recorded(epoch, call, Some(&read)),
                None => self.conclude(unit, call, expired()).await,
            }
        } else {
            unit.mark_recorded(epoch, call, None);
        }
        Ok(())
    }

    /// The call of a row; `None` if its time is up or the row cannot be parsed.
    fn outgoing(&self, row: NodeCallRecord) -> Option<OutgoingCall> {
        let time_left = row.deadline_at.as_millisecond() - self.0.clock.now().as_millisecond();
        let deadline_ms = u64::try_from(time_left).ok().filter(|time_left| *time_left > 0)?;
        let call = Call {
            call_id: row.call_id,
            tool: row.tool,
            arguments: RawValue::from_string(row.arguments).ok()?,
            session_id: row.session_id,
            caller: Caller { subject: row.subject, profile: row.profile },
            deadline_ms,
            keep: true,
            idempotency_key: row.idempotency.map(|(key, _)| key),
            traceparent: None,
        };
        Some(OutgoingCall { call, queue: true, on_sent: None })
    }

    /// Records the end of a call without a waiting caller, and then notifies its machine.
    pub(super) async fn conclude(&self, unit: &Unit, call: CallId, outcome: CallOutcome) {
        let Some(conclude) = self.0.conclude.get() else {
            unit.conclude_failed(call);
            return;
        };
        let mut pause = RETRY_DELAY;
        while let Err(error) = conclude(unit.id, call, outcome.clone()).await {
            tracing::warn!(%error, node = %unit.id, %call, "cannot record the end of a call; retrying");
            tokio::select! {
                () = self.0.stopping.cancelled() => {
                    unit.conclude_failed(call);
                    return;
                }
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_RETRY_DELAY),
            }
        }
        unit.settled(call);
    }

    /// The same in a task, for callers that must not wait.
    pub(super) fn conclude_soon(&self, unit: &Arc<Unit>, call: CallId, outcome: CallOutcome) {
        let (gateway, unit) = (self.clone(), unit.clone());
        self.0.supervisor.spawn(Stage::Work, "end of a call on a node", async move {
            gateway.conclude(&unit, call, outcome).await;
        });
    }

    /// Ends the calls of machines that no longer exist.
    pub(super) async fn end_calls_of_removed_nodes(&self) -> Result<(), StoreError> {
        let calls = self.0.store.read_committed().await?.node_calls(None).await?;
        let Some(conclude) = self.0.conclude.get() else { return Ok(()) };
        for call in calls.into_iter().filter(|call| self.unit(call.node_id).is_none()) {
            let outcome = interrupted("its node was removed");
            if let Err(error) = conclude(call.node_id, call.call_id, outcome).await {
                tracing::warn!(%error, call = %call.call_id, "cannot record the end of a call");
            }
        }
        Ok(())
    }
}

/// Whether a token was revoked. One that merely expired was valid when the call was made.
async fn is_revoked(conn: &mut Conn, token: TokenId, now: Timestamp) -> Result<bool, StoreError> {
    let token = conn.token(token).await?;
    Ok(token.is_none_or(|token| token.revoked_at.is_some_and(|at| at <= now)))
}
