//! The hash chain: each audit entry contains the hash of its predecessor.
//!
//! The hash is SHA-256 over every column in a fixed order, each prefixed with its length, so that different
//! rows never hash the same bytes. Anyone can recompute it from the table, but cannot make a modified chain
//! end in the signed head.

use aws_lc_rs::digest;
use plexus_kit::clock::from_millis;
use plexus_kit::hex;
use plexus_proto::api::{AuditEntry, AuditHead, AuditPhase};

use crate::audit::{NewAudit, json};
use crate::audit_verify::Pruned;
use crate::conn::{Row, Value, storable};
use crate::{Store, StoreError, Witness};

impl Store {
    /// The head that a hub signs before its first entry.
    #[must_use]
    pub fn audit_genesis(&self) -> AuditHead {
        AuditHead { hub: self.instance_id().to_owned(), n: 0, hash: GENESIS.to_owned() }
    }
}

/// Predecessor hash of the first entry.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A row of the chain exactly as stored. Fields stay text, because the text was hashed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChainedEntry {
    hub: String,
    pub(crate) n: i64,
    at: i64,
    phase: String,
    call_id: Option<String>,
    token_id: Option<String>,
    actor: String,
    session_id: Option<String>,
    tool: String,
    via: String,
    outcome: String,
    detail: String,
    pub(crate) prev_hash: String,
    pub(crate) hash: String,
}

impl ChainedEntry {
    pub(crate) fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            hub: row.text(0)?,
            n: row.int(1)?,
            at: row.int(2)?,
            phase: row.text(3)?,
            call_id: row.opt_text(4)?,
            token_id: row.opt_text(5)?,
            actor: row.text(6)?,
            session_id: row.opt_text(7)?,
            tool: row.text(8)?,
            via: row.text(9)?,
            outcome: row.text(10)?,
            detail: row.text(11)?,
            prev_hash: row.text(12)?,
            hash: row.text(13)?,
        })
    }

    pub(crate) fn into_values(self) -> [Value; 14] {
        [
            self.hub.into(),
            self.n.into(),
            self.at.into(),
            self.phase.into(),
            self.call_id.into(),
            self.token_id.into(),
            self.actor.into(),
            self.session_id.into(),
            self.tool.into(),
            self.via.into(),
            self.outcome.into(),
            self.detail.into(),
            self.prev_hash.into(),
            self.hash.into(),
        ]
    }

    pub(crate) fn into_entry(self) -> Result<AuditEntry, StoreError> {
        let id = |e: plexus_proto::InvalidId| StoreError::damaged("audit", e);
        Ok(AuditEntry {
            n: self.n,
            at: from_millis(self.at),
            phase: match self.phase.as_str() {
                "started" => AuditPhase::Started,
                "finished" => AuditPhase::Finished,
                _ => AuditPhase::Notice,
            },
            call_id: self.call_id.map(|text| text.parse().map_err(id)).transpose()?,
            token_id: self.token_id.map(|text| text.parse().map_err(id)).transpose()?,
            actor: self.actor,
            session_id: self.session_id.map(|text| text.parse().map_err(id)).transpose()?,
            tool: self.tool,
            via: self.via,
            outcome: self.outcome,
            detail: json(&self.detail),
            prev_hash: self.prev_hash,
            hash: self.hash,
        })
    }

    pub(crate) fn head(&self) -> AuditHead {
        AuditHead { hub: self.hub.clone(), n: self.n, hash: self.hash.clone() }
    }

    /// Whether the entry was written with number `n`.
    pub(crate) fn matches_as(&self, n: i64) -> bool {
        Self { n, ..self.clone() }.computed_hash() == self.hash
    }

    pub(crate) fn computed_hash(&self) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        let mut field = |value: Option<&str>| match value {
            // Distinguishes a missing value from an empty one.
            None => context.update(&u64::MAX.to_be_bytes()),
            Some(text) => {
                context.update(&(text.len() as u64).to_be_bytes());
                context.update(text.as_bytes());
            }
        };
        field(Some(&self.prev_hash));
        field(Some(&self.hub));
        field(Some(&self.n.to_string()));
        field(Some(&self.at.to_string()));
        field(Some(&self.phase));
        field(self.call_id.as_deref());
        field(self.token_id.as_deref());
        field(Some(&self.actor));
        field(self.session_id.as_deref());
        field(Some(&self.tool));
        field(Some(&self.via));
        field(Some(&self.outcome));
        field(Some(&self.detail));
        hex::encode(context.finish().as_ref())
    }
}

/// Assigns numbers and hashes to entries that follow `head`.
pub(crate) fn extend(hub: &str, head: Option<&AuditHead>, entries: Vec<NewAudit>) -> Vec<ChainedEntry> {
    let (mut n, mut prev_hash) = head.map_or((0, GENESIS.to_owned()), |head| (head.n, head.hash.clone()));
    let mut chained = Vec::with_capacity(entries.len());
    for entry in entries {
        n += 1;
        let mut link = ChainedEntry {
            hub: hub.to_owned(),
            n,
            at: entry.at.as_millisecond(),
            phase: entry.phase.as_str().to_owned(),
            call_id: entry.call_id.map(|id| id.to_string()),
            token_id: entry.token_id.map(|id| id.to_string()),
            actor: entry.actor,
            session_id: entry.session_id.map(|id| id.to_string()),
            // Hash the text as it will be stored.
            tool: storable(entry.tool),
            via: entry.via.into_owned(),
            outcome: entry.outcome.into_owned(),
            detail: entry.detail,
            prev_hash,
            hash: String::new(),
        };
        link.hash = link.computed_hash();
        prev_hash = link.hash.clone();
        chained.push(link);
    }
    chained
}

/// Outcome of the notice that a hub writes when its chain does not match the signed head.
pub(crate) const BREAK_OUTCOME: &str = "chain_break";
/// Outcome of the notice that replaces the entries removed by a retention policy.
pub(crate) const PRUNED_OUTCOME: &str = "pruned";

impl NewAudit {
    /// Notice that the hub found its chain broken; written once and kept in the chain.
    #[must_use]
    pub fn chain_break(at: plexus_proto::Timestamp, signed: Option<&AuditHead>, message: &str) -> Self {
        Self {
            at,
            phase: AuditPhase::Notice,
            call_id: None,
            token_id: None,
            actor: "hub".to_owned(),
            session_id: None,
            tool: String::new(),
            via: "start".into(),
            outcome: BREAK_OUTCOME.into(),
            detail: serde_json::json!({ "message": message, "signed": signed }).to_string(),
        }
    }

    /// Notice that a retention policy removed entries; signed, because anyone who can remove entries can also
    /// write a notice.
    #[must_use]
    pub(crate) fn pruned(
        at: plexus_proto::Timestamp,
        hub: &str,
        pruned: &Pruned,
        witness: &dyn Witness,
    ) -> Self {
        let Pruned { through, hash, breaks } = pruned;
        let signature = witness.sign(&pruned.statement(hub));
        let detail =
            serde_json::json!({ "through": through, "hash": hash, "breaks": breaks, "signature": signature });
        Self {
            via: "retention".into(),
            outcome: PRUNED_OUTCOME.into(),
            detail: detail.to_string(),
            ..Self::chain_break(at, None, "")
        }
    }
}
