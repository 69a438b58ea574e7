//! Statistics of a session, aggregated by the database from its events.
//!
//! Only the newest events are counted, so that the cost of a query is bounded regardless of the session's
//! length.

use plexus_kit::clock::from_millis;
use plexus_proto::api::{CallStats, QueuedStats, RunStats, Session, SessionStats, ToolStats};

use crate::conn::{Row, Sql, Value};
use crate::dialect::Connection;
use crate::{Conn, StoreError};

/// Maximum number of tools listed, the most called first.
const TOOLS: usize = 50;
/// Maximum number of combinations of tool and failure distinguished in one session.
const GROUPS: i64 = 2_000;

impl Conn {
    /// Counts at most the `most` newest events of a session.
    pub async fn session_stats(&mut self, session: Session, most: i64) -> Result<SessionStats, StoreError> {
        let after = (session.last_seq - most).max(0);
        let range = || -> Vec<Value> { vec![session.id.to_string().into(), after.into()] };
        let span = self
            .row(
                "counting events",
                "SELECT COUNT(*), MIN(at), MAX(at) FROM session_events WHERE session_id = $1 AND seq > $2",
                range(),
            )
            .await?;
        let (events, first, last) = match &span {
            Some(row) => (row.int(0)?, row.opt_int(1)?, row.opt_int(2)?),
            None => (0, None, None),
        };
        let calls = self.rows("counting calls", calls_sql(&self.0), range()).await?;
        let (calls, queued) = counted(&calls)?;
        let notifications = self.rows("counting notifications", notifications_sql(&self.0), range()).await?;
        let (dead_letters, runs) = notification_counts(&notifications)?;
        let tokens = self.row("counting tokens", tokens_sql(&self.0), range()).await?;
        let tokens = tokens.map(|row| row.opt_int(0)).transpose()?.flatten();
        Ok(SessionStats {
            events,
            partial: after > 0,
            first_at: first.map(from_millis),
            last_at: last.map(from_millis),
            calls,
            queued,
            dead_letters,
            tokens,
            runs,
            session,
        })
    }
}

/// Per tool and failure: calls, duration, and writes that were queued. Events are grouped by call id; the
/// start may be missing, because rejected calls have none or because it is too old.
fn calls_sql(dialect: &Connection) -> Sql {
    let (id, tool, code) = (
        dialect.payload_text(&["call_id"]),
        dialect.payload_text(&["tool"]),
        dialect.payload_text(&["result", "code"]),
    );
    let (success, waited) = (dialect.payload_text(&["success"]), dialect.payload_count("waited_ms"));
    Sql::Built(format!(
        "SELECT tool, failure, COUNT(*), CAST(SUM(took) AS BIGINT), COUNT(waited), \
                CAST(COALESCE(SUM(waited), 0) AS BIGINT), COALESCE(MAX(waited), 0) FROM ( \
           SELECT MAX(tool) AS tool, MAX(failure) AS failure, MAX(at) - MIN(at) AS took, MAX(waited) AS waited FROM ( \
             SELECT {id} AS call_key, {tool} AS tool, at, kind, {waited} AS waited, \
                    CASE WHEN kind = 'tool_call' AND {success} NOT IN ('1', 'true') \
                         THEN COALESCE({code}, 'tool_failed') END AS failure \
             FROM session_events WHERE session_id = $1 AND seq > $2 AND kind IN ('tool_started', 'tool_call') \
           ) parts GROUP BY call_key HAVING MAX(CASE WHEN kind = 'tool_call' THEN 1 ELSE 0 END) = 1 \
         ) calls GROUP BY tool, failure ORDER BY 3 DESC LIMIT {GROUPS}"
    ))
}

/// Notifications of programs that start agents or deliver their queued writes.
fn notifications_sql(dialect: &Connection) -> Sql {
    let source = dialect.payload_text(&["source"]);
    let (state, event) = (dialect.payload_text(&["state"]), dialect.payload_text(&["event"]));
    Sql::Built(format!(
        "SELECT source, state, COUNT(*) FROM ( \
           SELECT {source} AS source, COALESCE({state}, {event}) AS state FROM session_events \
           WHERE session_id = $1 AND seq > $2 AND kind = 'notification' \
         ) notifications WHERE (source = 'run' AND state IN ('started', 'exited', 'crashed', 'stopped', 'restarted')) \
                   OR (source = 'outbox' AND state = 'dead_letter') GROUP BY source, state"
    ))
}

fn tokens_sql(dialect: &Connection) -> Sql {
    let tokens = dialect.payload_count("token_count");
    Sql::Built(format!(
        "SELECT CAST(SUM({tokens}) AS BIGINT) FROM session_events \
         WHERE session_id = $1 AND seq > $2 AND kind = 'stream_end'"
    ))
}

fn counted(rows: &[Row]) -> Result<(CallStats, QueuedStats), StoreError> {
    let (mut calls, mut queued, mut waited) = (CallStats::default(), QueuedStats::default(), 0_i64);
    let mut tools: Vec<ToolStats> = Vec::new();
    for row in rows {
        let (tool, failure) = (row.opt_text(0)?.unwrap_or_else(|| "?".to_owned()), row.opt_text(1)?);
        let (count, took) = (row.int(2)?, row.opt_int(3)?.unwrap_or(0));
        let failed = if failure.is_some() { count } else { 0 };
        calls.total += count;
        calls.failed += failed;
        calls.took_ms = calls.took_ms.saturating_add(took);
        if let Some(code) = failure {
            *calls.failures.entry(code).or_default() += count;
        }
        match tools.iter_mut().find(|known| known.tool == tool) {
            Some(known) => {
                known.calls += count;
                known.failed += failed;
                known.took_ms = known.took_ms.saturating_add(took);
            }
            None => tools.push(ToolStats { tool, calls: count, failed, took_ms: took }),
        }
        queued.writes += row.int(4)?;
        waited = waited.saturating_add(row.int(5)?);
        queued.longest_ms = queued.longest_ms.max(row.int(6)?);
    }
    if queued.writes > 0 {
        queued.mean_ms = waited / queued.writes;
    }
    tools.sort_by(|one, other| other.calls.cmp(&one.calls).then_with(|| one.tool.cmp(&other.tool)));
    tools.truncate(TOOLS);
    calls.tools = tools;
    Ok((calls, queued))
}

fn notification_counts(rows: &[Row]) -> Result<(i64, RunStats), StoreError> {
    let (mut dead_letters, mut runs) = (0, RunStats::default());
    for row in rows {
        let count = row.int(2)?;
        match row.text(1)?.as_str() {
            "dead_letter" => dead_letters = count,
            "started" => runs.started = count,
            "exited" => runs.exited = count,
            "crashed" => runs.crashed = count,
            "stopped" => runs.stopped = count,
            _ => runs.restarted = count,
        }
    }
    Ok((dead_letters, runs))
}
