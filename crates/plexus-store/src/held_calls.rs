//! A node's record of accepted calls, until the hub confirms their results.
//!
//! Must be written with [`Store::write_through`](crate::Store::write_through): a row is durable before the
//! tool starts, and its result before anyone is notified.

use plexus_kit::clock::from_millis;
use plexus_proto::node::HeldState;
use plexus_proto::{CallId, Timestamp};

use crate::{Conn, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCall {
    pub call_id: CallId,
    pub tool: String,
    /// The caller, as reported by the hub.
    pub subject: String,
    pub state: HeldState,
    /// JSON of the outcome, as sent. `None` while the call runs.
    pub result: Option<String>,
    pub accepted_at: Timestamp,
}

fn damaged(message: impl ToString) -> StoreError {
    StoreError::damaged("held_calls", message)
}

fn as_str(state: HeldState) -> &'static str {
    match state {
        HeldState::Running => "running",
        HeldState::Finished => "finished",
        HeldState::Interrupted => "interrupted",
    }
}

fn parse(text: &str) -> Result<HeldState, StoreError> {
    [HeldState::Running, HeldState::Finished, HeldState::Interrupted]
        .into_iter()
        .find(|state| as_str(*state) == text)
        .ok_or_else(|| damaged(format!("state {text:?}")))
}

impl Conn {
    /// Accepts a call that starts now. Returns false if it was accepted before and must not start again.
    pub async fn insert_held_call(
        &mut self,
        call_id: CallId,
        tool: &str,
        subject: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let stored = self
            .execute(
                "accepting a call",
                "INSERT INTO held_calls (call_id, tool, subject, state, accepted_at) \
                 VALUES ($1, $2, $3, 'running', $4) ON CONFLICT (call_id) DO NOTHING",
                vec![call_id.to_string().into(), tool.into(), subject.into(), now.as_millisecond().into()],
            )
            .await?;
        Ok(stored == 1)
    }

    pub async fn held_call(&mut self, call_id: CallId) -> Result<Option<HeldCall>, StoreError> {
        let row = self
            .row(
                "reading a held call",
                "SELECT tool, subject, state, result, accepted_at FROM held_calls WHERE call_id = $1",
                vec![call_id.to_string().into()],
            )
            .await?;
        row.map(|row| {
            Ok(HeldCall {
                call_id,
                tool: row.text(0)?,
                subject: row.text(1)?,
                state: parse(&row.text(2)?)?,
                result: row.opt_text(3)?,
                accepted_at: from_millis(row.int(4)?),
            })
        })
        .transpose()
    }

    /// All held calls in the order in which the hub created them, without their results, which may be large.
    pub async fn held_calls(&mut self) -> Result<Vec<(CallId, HeldState)>, StoreError> {
        let sql = "SELECT call_id, state FROM held_calls ORDER BY call_id";
        let rows = self.rows("listing held calls", sql, vec![]).await?;
        rows.iter().map(|row| Ok((row.text(0)?.parse().map_err(damaged)?, parse(&row.text(1)?)?))).collect()
    }

    /// Stores how a call ended. Returns false if it does not exist or had already ended; the first outcome is
    /// kept.
    pub async fn end_held_call(&mut self, call_id: CallId, result: &str) -> Result<bool, StoreError> {
        let ended = self
            .execute(
                "storing the result of a call",
                "UPDATE held_calls SET state = 'finished', result = $2 WHERE call_id = $1 AND state = 'running'",
                vec![call_id.to_string().into(), result.into()],
            )
            .await?;
        Ok(ended == 1)
    }

    /// Ends the calls that were running when the node stopped; returns their number.
    pub async fn interrupt_held_calls(&mut self, result: &str) -> Result<u64, StoreError> {
        self.execute(
            "ending calls interrupted by a stop of the node",
            "UPDATE held_calls SET state = 'interrupted', result = $1 WHERE state = 'running'",
            vec![result.into()],
        )
        .await
    }

    /// Deletes a call whose result was confirmed or is not needed. Returns false if there was none.
    pub async fn delete_held_call(&mut self, call_id: CallId) -> Result<bool, StoreError> {
        let sql = "DELETE FROM held_calls WHERE call_id = $1";
        Ok(self.execute("deleting a held call", sql, vec![call_id.to_string().into()]).await? == 1)
    }
}
