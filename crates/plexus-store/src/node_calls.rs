//! The hub's record of calls that are queued for nodes or were sent to them.
//!
//! A row is committed before anything is sent, and deleted in the transaction that settles the call: whoever
//! deletes it reports the outcome.

use plexus_kit::clock::from_millis;
use plexus_proto::{CallId, NodeId, SessionId, Timestamp, TokenId};
use uuid::Uuid;

use crate::conn::Row;
use crate::{Conn, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCallState {
    /// Waits for its node; nothing was sent.
    Queued,
    /// May have been sent.
    Sent,
}

impl NodeCallState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        match text {
            "queued" => Ok(Self::Queued),
            "sent" => Ok(Self::Sent),
            other => Err(damaged(format!("state {other:?}"))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCallRecord {
    pub call_id: CallId,
    pub node_id: NodeId,
    /// The store of the node that the call was sent to; `None` while it is queued.
    pub store_id: Option<Uuid>,
    pub state: NodeCallState,
    pub subject: String,
    pub profile: Option<String>,
    pub token_id: TokenId,
    pub session_id: SessionId,
    pub tool: String,
    /// A JSON object.
    pub arguments: String,
    /// The idempotency key reserved for the call, with its request digest.
    pub idempotency: Option<(String, String)>,
    /// Interface of the request, as in the audit log.
    pub via: String,
    pub deadline_at: Timestamp,
    /// Until when it may wait for its node.
    pub queued_until: Option<Timestamp>,
    pub created_at: Timestamp,
}

fn damaged(message: impl ToString) -> StoreError {
    StoreError::damaged("node_calls", message)
}

fn call(row: &Row) -> Result<NodeCallRecord, StoreError> {
    Ok(NodeCallRecord {
        call_id: row.text(0)?.parse().map_err(damaged)?,
        node_id: row.text(1)?.parse().map_err(damaged)?,
        store_id: row.opt_text(2)?.map(|id| id.parse()).transpose().map_err(damaged)?,
        state: NodeCallState::parse(&row.text(3)?)?,
        subject: row.text(4)?,
        profile: row.opt_text(5)?,
        token_id: row.text(6)?.parse().map_err(damaged)?,
        session_id: row.text(7)?.parse().map_err(damaged)?,
        tool: row.text(8)?,
        arguments: row.text(9)?,
        idempotency: row.opt_text(10)?.zip(row.opt_text(11)?),
        via: row.text(12)?,
        deadline_at: from_millis(row.int(13)?),
        queued_until: row.opt_int(14)?.map(from_millis),
        created_at: from_millis(row.int(15)?),
    })
}

impl Conn {
    pub async fn insert_node_call(&mut self, call: &NodeCallRecord) -> Result<(), StoreError> {
        let (key, request_hash) = call.idempotency.clone().unzip();
        self.execute(
            "storing a call to a node",
            "INSERT INTO node_calls (call_id, node_id, store_id, state, subject, profile, token_id, session_id, tool, \
                 arguments, idempotency_key, request_hash, via, deadline_at, queued_until, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
            vec![
                call.call_id.to_string().into(),
                call.node_id.to_string().into(),
                call.store_id.map(|id| id.to_string()).into(),
                call.state.as_str().into(),
                call.subject.as_str().into(),
                call.profile.as_deref().into(),
                call.token_id.to_string().into(),
                call.session_id.to_string().into(),
                call.tool.as_str().into(),
                call.arguments.as_str().into(),
                key.into(),
                request_hash.into(),
                call.via.as_str().into(),
                call.deadline_at.as_millisecond().into(),
                call.queued_until.map(|at| at.as_millisecond()).into(),
                call.created_at.as_millisecond().into(),
            ],
        )
        .await?;
        Ok(())
    }

    pub async fn node_call(&mut self, call_id: CallId) -> Result<Option<NodeCallRecord>, StoreError> {
        let row = self
            .row(
                "reading a call to a node",
                "SELECT call_id, node_id, store_id, state, subject, profile, token_id, session_id, tool, arguments, \
                     idempotency_key, request_hash, via, deadline_at, queued_until, created_at \
                 FROM node_calls WHERE call_id = $1",
                vec![call_id.to_string().into()],
            )
            .await?;
        row.as_ref().map(call).transpose()
    }

    /// Calls of one node, or of all nodes, in creation order.
    pub async fn node_calls(&mut self, node: Option<NodeId>) -> Result<Vec<NodeCallRecord>, StoreError> {
        let node = node.map(|id| id.to_string());
        let rows = self
            .rows(
                "listing calls to nodes",
                "SELECT call_id, node_id, store_id, state, subject, profile, token_id, session_id, tool, arguments, \
                     idempotency_key, request_hash, via, deadline_at, queued_until, created_at \
                 FROM node_calls WHERE ($1 IS NULL OR node_id = $1) ORDER BY call_id",
                vec![node.into()],
            )
            .await?;
        rows.iter().map(call).collect()
    }

    /// Queued calls whose waiting time ended before `queued`, and sent calls whose deadline passed before
    /// `sent`.
    pub async fn overdue_node_calls(
        &mut self,
        queued: Timestamp,
        sent: Timestamp,
    ) -> Result<Vec<NodeCallRecord>, StoreError> {
        let rows = self
            .rows(
                "listing overdue calls to nodes",
                "SELECT call_id, node_id, store_id, state, subject, profile, token_id, session_id, tool, arguments, \
                     idempotency_key, request_hash, via, deadline_at, queued_until, created_at \
                 FROM node_calls WHERE (state = 'queued' AND queued_until < $1) OR (state = 'sent' AND deadline_at < $2) \
                 ORDER BY call_id",
                vec![queued.as_millisecond().into(), sent.as_millisecond().into()],
            )
            .await?;
        rows.iter().map(call).collect()
    }

    /// Number of calls that wait for a node.
    pub async fn queued_node_calls(&mut self, node: NodeId) -> Result<i64, StoreError> {
        let row = self
            .row(
                "counting the calls that wait for a node",
                "SELECT COUNT(*) FROM node_calls WHERE node_id = $1 AND state = 'queued'",
                vec![node.to_string().into()],
            )
            .await?;
        row.map_or(Ok(0), |row| row.int(0))
    }

    /// Records, before sending, that a call goes to this store of its node. Returns false if the call does
    /// not exist any more.
    pub async fn send_node_call(&mut self, call_id: CallId, store_id: Uuid) -> Result<bool, StoreError> {
        let sent = self
            .execute(
                "recording that a call is sent",
                "UPDATE node_calls SET state = 'sent', store_id = $2 WHERE call_id = $1",
                vec![call_id.to_string().into(), store_id.to_string().into()],
            )
            .await?;
        Ok(sent == 1)
    }

    /// Deletes a queued call, so that it is never sent. Returns false if it may have been sent or does not
    /// exist.
    pub async fn withdraw_node_call(&mut self, call_id: CallId) -> Result<bool, StoreError> {
        let sql = "DELETE FROM node_calls WHERE call_id = $1 AND state = 'queued'";
        Ok(self.execute("withdrawing a call to a node", sql, vec![call_id.to_string().into()]).await? == 1)
    }

    /// Deletes a call as part of settling it. Returns false if it was already settled.
    pub async fn delete_node_call(&mut self, call_id: CallId) -> Result<bool, StoreError> {
        let sql = "DELETE FROM node_calls WHERE call_id = $1";
        Ok(self.execute("settling a call to a node", sql, vec![call_id.to_string().into()]).await? == 1)
    }

    /// For restored calls: their outcome since the backup is unknown, so none may be sent. Each is marked as
    /// sent to a store that no longer exists: its node reports the outcome, or it counts as interrupted.
    pub(crate) async fn mark_node_calls_sent(&mut self) -> Result<(), StoreError> {
        self.execute(
            "marking restored node calls as sent",
            "UPDATE node_calls SET state = 'sent', store_id = $1",
            vec![Uuid::nil().to_string().into()],
        )
        .await
        .map(drop)
    }
}
