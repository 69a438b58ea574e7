//! Audit rows: inserted only by the writer, read as links of the chain or folded into calls.

use std::borrow::Cow;

use plexus_kit::clock::from_millis;
use plexus_proto::api::{AuditCall, AuditEntry, AuditHead, AuditPhase};
use plexus_proto::{CallId, SessionId, Timestamp, TokenId};
use serde_json::Value as Json;

use crate::audit_chain::ChainedEntry;
use crate::audit_verify::Link;
use crate::conn::{Row, Sql, Statement, Value, chunk_sizes, padded_statements, placeholders};
use crate::dialect::RowsAs;
use crate::{Conn, StoreError, Witness};

const COLUMNS: usize = 14;

/// For SQLite; see [`padded_statements`].
const APPEND_PADDED: &str = "INSERT INTO audit (hub, n, at, phase, call_id, token_id, actor, session_id, tool, via, \
    outcome, detail, prev_hash, hash) SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL";

/// An entry that is not part of the chain yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAudit {
    pub at: Timestamp,
    pub phase: AuditPhase,
    pub call_id: Option<CallId>,
    pub token_id: Option<TokenId>,
    pub actor: String,
    pub session_id: Option<SessionId>,
    pub tool: String,
    pub via: Cow<'static, str>,
    pub outcome: Cow<'static, str>,
    /// JSON text, redacted and bounded by the caller.
    pub detail: String,
}

/// Filter for listing calls; unset fields match everything.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub tool: Option<String>,
    pub actor: Option<String>,
    pub session_id: Option<SessionId>,
    /// Only the call whose id ends with this.
    pub call_suffix: Option<String>,
    /// Number of the last entry of the previous page.
    pub before: Option<i64>,
    /// Only calls that ended with an error, among the newest [`FAILED_WITHIN`] entries: an error may be rare, and a
    /// search for it must not read the whole chain.
    pub failed: bool,
}

/// Entries among which failed calls are looked for.
const FAILED_WITHIN: i64 = 50_000;

const CALL_COLUMNS: &str = "s.n, s.at, s.call_id, s.token_id, s.actor, s.session_id, s.tool, s.via, s.detail, \
                            f.n, f.at, f.outcome, f.detail";

impl Conn {
    /// The newest link of a hub's chain.
    pub(crate) async fn audit_head(&mut self, hub: &str) -> Result<Option<AuditHead>, StoreError> {
        let row = self
            .row(
                "reading the audit head",
                "SELECT n, hash FROM audit WHERE hub = $1 ORDER BY n DESC LIMIT 1",
                vec![hub.into()],
            )
            .await?;
        row.map(|row| Ok(AuditHead { hub: hub.to_owned(), n: row.int(0)?, hash: row.text(1)? })).transpose()
    }

    /// Links after number `after`, in order, with the text as stored, which is what was hashed.
    pub(crate) async fn audit_links(
        &mut self,
        hub: &str,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Link>, StoreError> {
        let rows = self
            .rows(
                "reading the audit chain",
                "SELECT hub, n, at, phase, call_id, token_id, actor, session_id, tool, via, outcome, detail, \
                 prev_hash, hash FROM audit WHERE hub = $1 AND n > $2 ORDER BY n LIMIT $3",
                vec![hub.into(), after.into(), limit.into()],
            )
            .await?;
        Ok(rows.iter().map(|row| ChainedEntry::from_row(row).map_err(|_| row.int(1).ok())).collect())
    }

    /// Calls, newest first, with the number to continue from.
    pub async fn audit_calls(
        &mut self,
        hub: &str,
        filter: &AuditFilter,
        limit: i64,
    ) -> Result<Vec<AuditCall>, StoreError> {
        let after = match filter.failed {
            true => self.audit_head(hub).await?.map_or(0, |head| head.n.saturating_sub(FAILED_WITHIN)),
            false => i64::MIN,
        };
        let rows = self
            .rows(
                "listing audited calls",
                Sql::Built(format!(
                    "SELECT {CALL_COLUMNS} FROM audit s \
                     LEFT JOIN audit f ON f.call_id = s.call_id AND f.phase = 'finished' AND f.hub = s.hub \
                     WHERE s.hub = $1 AND s.phase = 'started' AND ($2 IS NULL OR s.n < $2) \
                     AND ($3 IS NULL OR s.tool = $3) AND ($4 IS NULL OR s.actor = $4) \
                     AND ($5 IS NULL OR s.session_id = $5) \
                     AND ($6 IS NULL OR substr(s.call_id, 37 - length($6)) = $6) \
                     AND s.n > $8 AND ($9 = 0 OR f.outcome <> 'ok') \
                     ORDER BY s.n DESC LIMIT $7"
                )),
                vec![
                    hub.into(),
                    filter.before.into(),
                    filter.tool.as_deref().into(),
                    filter.actor.as_deref().into(),
                    filter.session_id.map(|id| id.to_string()).into(),
                    filter.call_suffix.as_deref().into(),
                    limit.into(),
                    after.into(),
                    i64::from(filter.failed).into(),
                ],
            )
            .await?;
        rows.iter().map(call).collect()
    }

    pub async fn audit_call(&mut self, call_id: CallId) -> Result<Option<AuditCall>, StoreError> {
        let row = self
            .row(
                "reading an audited call",
                Sql::Built(format!(
                    "SELECT {CALL_COLUMNS} FROM audit s \
                     LEFT JOIN audit f ON f.call_id = s.call_id AND f.phase = 'finished' AND f.hub = s.hub \
                     WHERE s.call_id = $1 AND s.phase = 'started'"
                )),
                vec![call_id.to_string().into()],
            )
            .await?;
        row.as_ref().map(call).transpose()
    }

    /// Whether the hub ever found its chain broken, as far as its entries reach back.
    pub async fn audit_was_broken(&mut self, hub: &str, witness: &dyn Witness) -> Result<bool, StoreError> {
        Ok(!self.audit_breaks(hub, i64::MAX, witness).await?.is_empty())
    }

    /// Notices of the hub about its own chain, of one kind, oldest first.
    pub(crate) async fn audit_notices(
        &mut self,
        hub: &str,
        outcome: &str,
        limit: i64,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = self
            .rows(
                "reading audit notices",
                "SELECT hub, n, at, phase, call_id, token_id, actor, session_id, tool, via, outcome, detail, \
                 prev_hash, hash FROM audit WHERE hub = $1 AND phase = 'notice' AND outcome = $2 ORDER BY n LIMIT $3",
                vec![hub.into(), outcome.into(), limit.into()],
            )
            .await?;
        // Skips unreadable rows; the walk over the chain reports them.
        Ok(rows.iter().filter_map(|row| ChainedEntry::from_row(row).ok()?.into_entry().ok()).collect())
    }
}

/// Statements that append to the chain. Only the writer may use them: numbers and hashes must follow the
/// committed head.
pub(crate) fn append_statements(entries: Vec<ChainedEntry>, rows: RowsAs) -> Vec<Statement> {
    if let RowsAs::Padded = rows {
        let values: Vec<Value> = entries.into_iter().flat_map(ChainedEntry::into_values).collect();
        return padded_statements(APPEND_PADDED, values, COLUMNS);
    }
    let total = entries.len();
    let mut entries = entries.into_iter();
    chunk_sizes(total)
        .map(|size| {
            let values: Vec<Value> = entries.by_ref().take(size).flat_map(ChainedEntry::into_values).collect();
            let sql = format!(
                "INSERT INTO audit (hub, n, at, phase, call_id, token_id, actor, session_id, tool, via, outcome, \
                 detail, prev_hash, hash) VALUES {}",
                placeholders(size, COLUMNS)
            );
            Statement { sql: Sql::Built(sql), values }
        })
        .collect()
}

fn call(row: &Row) -> Result<AuditCall, StoreError> {
    let id = |e: plexus_proto::InvalidId| StoreError::damaged("audit", e);
    let finished = row.opt_int(9)?;
    Ok(AuditCall {
        call_id: row.text(2)?.parse().map_err(id)?,
        started_at: from_millis(row.int(1)?),
        finished_at: row.opt_int(10)?.map(from_millis),
        actor: row.text(4)?,
        token_id: row.opt_text(3)?.map(|text| text.parse().map_err(id)).transpose()?,
        session_id: row.opt_text(5)?.map(|text| text.parse().map_err(id)).transpose()?,
        tool: row.text(6)?,
        via: row.text(7)?,
        outcome: row.opt_text(11)?.unwrap_or_else(|| "unfinished".to_owned()),
        arguments: json(&row.text(8)?),
        result: row.opt_text(12)?.map_or(Json::Null, |text| json(&text)),
        entries: std::iter::once(row.int(0)?).chain(finished).collect(),
    })
}

/// Parses stored detail; text that is not JSON, because of tampering, is returned as a string.
pub(crate) fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned()))
}
