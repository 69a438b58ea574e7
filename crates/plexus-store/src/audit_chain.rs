//! The chain: each audit entry carries the hash of the one before it.
//!
//! The hash is SHA-256 over every column in a fixed order, each with its length before it, so that
//! no two different rows give the same bytes. Anyone can recompute it with what is in the table;
//! what they cannot do is make a changed chain end in the head that was signed.

use aws_lc_rs::digest;
use plexus_kit::clock::from_millis;
use plexus_kit::hex;
use plexus_proto::api::{AuditEntry, AuditHead, AuditPhase, AuditProblem, AuditReport, ProblemKind};

use crate::audit::{NewAudit, json};
use crate::conn::{Row, Value, storable};
use crate::{Conn, Store, StoreError};

impl Store {
    /// What a hub signs before its first entry.
    #[must_use]
    pub fn audit_genesis(&self) -> AuditHead {
        AuditHead { hub: self.instance_id().to_owned(), n: 0, hash: GENESIS.to_owned() }
    }
}

/// Hash "before" the first entry.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Problems spelt out in a report; beyond that they are counted.
const PROBLEMS_NAMED: usize = 100;
/// Rows read at a time.
const PAGE: i64 = 2_000;

/// A row of the chain exactly as stored: text is kept as text, because text is what was hashed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChainedEntry {
    hub: String,
    n: i64,
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
    prev_hash: String,
    hash: String,
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

    fn computed_hash(&self) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        let mut field = |value: Option<&str>| match value {
            // A missing value and an empty one differ.
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

/// Gives entries their numbers and hashes, following `head`.
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
            // Hashed as it will be stored.
            tool: storable(entry.tool),
            via: entry.via.to_owned(),
            outcome: entry.outcome.to_owned(),
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

/// A stored row, or the number of one that cannot be read as an entry at all.
pub(crate) type Link = Result<ChainedEntry, Option<i64>>;

/// Walks the chain link by link and keeps what it finds.
#[derive(Default)]
struct Walk {
    last: Option<(i64, String)>,
    entries: i64,
    problems: Vec<AuditProblem>,
    problem_count: u64,
    /// Entries that do not match their hash where they stand: changed, or moved.
    misfits: Vec<ChainedEntry>,
}

impl Walk {
    fn problem(&mut self, kind: ProblemKind, n: i64, message: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_NAMED {
            self.problems.push(AuditProblem { kind, n, message });
        }
    }

    /// Where the next entry should stand.
    fn next_n(&self) -> i64 {
        self.last.as_ref().map_or(1, |(n, _)| n + 1)
    }

    /// False when there is no going on from here.
    fn link(&mut self, link: Link) -> bool {
        self.entries += 1;
        match link {
            Ok(entry) => self.entry(entry),
            Err(Some(n)) => {
                self.gap(n);
                self.problem(
                    ProblemKind::Changed,
                    n,
                    format!("entry {n} cannot be read: its content was changed"),
                );
                self.last = Some((n, String::new()));
            }
            Err(None) => {
                let n = self.next_n();
                self.problem(ProblemKind::Changed, n, format!("the number of entry {n} cannot be read"));
                return false;
            }
        }
        true
    }

    /// Whether entries before `n` are missing; says so.
    fn gap(&mut self, n: i64) -> bool {
        let expected = self.next_n();
        if n <= expected {
            return false;
        }
        let message = match n - expected {
            1 => format!("entry {expected} is missing"),
            _ => format!("entries {expected} to {} are missing", n - 1),
        };
        self.problem(ProblemKind::Missing, expected, message);
        true
    }

    fn entry(&mut self, entry: ChainedEntry) {
        if entry.n < 1 {
            let message = format!("no hub wrote an entry {}: numbers begin at 1", entry.n);
            self.problem(ProblemKind::Changed, entry.n, message);
            return;
        }
        let gap = self.gap(entry.n);
        let (last_n, last_hash) = self.last.clone().unwrap_or((0, GENESIS.to_owned()));
        self.last = Some((entry.n, entry.hash.clone()));
        if entry.computed_hash() != entry.hash {
            if self.misfits.len() < PROBLEMS_NAMED {
                self.misfits.push(entry);
            } else {
                self.problem_count += 1;
            }
        } else if !gap && !last_hash.is_empty() && entry.prev_hash != last_hash {
            let message = format!(
                "entry {} does not follow entry {last_n}: entries were exchanged or replaced",
                entry.n
            );
            self.problem(ProblemKind::Reordered, entry.n, message);
        }
    }

    /// Tells entries that were moved, which fit where another misfit stands, from changed ones.
    fn sort_misfits(&mut self) {
        let misfits = std::mem::take(&mut self.misfits);
        let places: Vec<i64> = misfits.iter().map(|entry| entry.n).collect();
        for entry in misfits {
            let n = entry.n;
            let home = places.iter().copied().find(|place| {
                *place != n && ChainedEntry { n: *place, ..entry.clone() }.computed_hash() == entry.hash
            });
            match home {
                Some(home) => {
                    let message = format!("entry {n} is out of place: it was written as entry {home}");
                    self.problem(ProblemKind::Reordered, n, message);
                }
                None => {
                    let message = format!("entry {n} does not match its hash: its content was changed");
                    self.problem(ProblemKind::Changed, n, message);
                }
            }
        }
        self.problems.sort_by_key(|problem| problem.n);
    }
}

impl Store {
    /// Recomputes this hub's chain and compares it with the signed head: `Err` in `signed` says why
    /// the head cannot be used.
    pub async fn verify_audit(
        &self,
        signed: Result<Option<AuditHead>, String>,
    ) -> Result<AuditReport, StoreError> {
        let hub = self.instance_id().to_owned();
        let mut walk = Walk::default();
        let mut at_signed = None;
        // Below every number there can be, so that nothing hides before the first.
        let mut after = i64::MIN;
        'chain: loop {
            // A reader is only borrowed for a page, for there are few of them.
            let links = self.read().await?.audit_links(&hub, after, PAGE).await?;
            let whole_page = links.len() as i64 == PAGE;
            for link in links {
                if let Ok(entry) = &link {
                    after = entry.n;
                    if matches!(&signed, Ok(Some(signed)) if signed.n == entry.n) {
                        at_signed = Some(entry.hash.clone());
                    }
                } else if let Err(Some(n)) = link {
                    after = n;
                }
                if !walk.link(link) {
                    break 'chain;
                }
            }
            if !whole_page {
                break;
            }
            // A long chain must not keep the runtime from other work.
            tokio::task::yield_now().await;
        }
        walk.sort_misfits();
        let notices = self.read().await?.audit_notices(&hub, PROBLEMS_NAMED as i64).await?;
        for notice in notices {
            if notice.outcome == BREAK_OUTCOME {
                let message = format!(
                    "at start-up the hub found: {}",
                    notice.detail["message"].as_str().unwrap_or("?")
                );
                walk.problem(ProblemKind::BreakAtStart, notice.n, message);
            }
        }
        let last_n = walk.last.as_ref().map_or(0, |(n, _)| *n);
        let signed = match signed {
            Ok(signed) => signed,
            Err(why) => {
                walk.problem(ProblemKind::HeadInvalid, last_n, why);
                None
            }
        };
        if let Some(signed) = &signed {
            compare_with_head(&mut walk, signed, at_signed.as_deref(), last_n);
        } else if last_n > 0 && walk.problems.iter().all(|p| p.kind != ProblemKind::HeadInvalid) {
            walk.problem(ProblemKind::HeadInvalid, last_n, "there are entries but no signed head".to_owned());
        }
        Ok(AuditReport {
            ok: walk.problem_count == 0,
            entries: walk.entries,
            head: walk.last.map(|(n, hash)| AuditHead { hub: hub.clone(), n, hash }),
            signed,
            hub,
            problems: walk.problems,
            problem_count: walk.problem_count,
        })
    }
}

/// Outcome of the notice that a hub writes when it finds its chain not to match the signed head.
pub(crate) const BREAK_OUTCOME: &str = "chain_break";

fn compare_with_head(walk: &mut Walk, signed: &AuditHead, at_signed: Option<&str>, last_n: i64) {
    if signed.n > last_n {
        let message = format!(
            "the newest entries are gone: the signed head is entry {}, the table ends at {last_n}",
            signed.n
        );
        walk.problem(ProblemKind::CutOff, last_n + 1, message);
    } else if at_signed.is_some_and(|hash| hash != signed.hash) {
        let message = format!("entry {} is not the one that was signed: the chain was rewritten", signed.n);
        walk.problem(ProblemKind::Rewritten, signed.n, message);
    }
}

impl Conn {
    /// What is wrong between the newest rows and the signed head, checked at start-up without a walk.
    pub async fn audit_break(&mut self, signed: &AuditHead) -> Result<Option<String>, StoreError> {
        if signed.n == 0 {
            // Signed before the first entry: there is nothing yet that could be missing.
            return Ok(None);
        }
        let row = self
            .row(
                "checking the audit head",
                "SELECT hash FROM audit WHERE hub = $1 AND n = $2",
                vec![signed.hub.as_str().into(), signed.n.into()],
            )
            .await?;
        let Some(row) = row else {
            let end = self.audit_head(&signed.hub).await?.map_or(0, |head| head.n);
            return Ok(Some(format!(
                "entry {} was signed as the newest, but it is not in the table, which ends at {end}",
                signed.n
            )));
        };
        let rewritten = row.text(0)? != signed.hash;
        Ok(rewritten.then(|| format!("entry {} is not the one that was signed", signed.n)))
    }
}

impl NewAudit {
    /// The hub found its chain broken; said once, in the chain, where it stays.
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
            via: "start",
            outcome: BREAK_OUTCOME,
            detail: serde_json::json!({ "message": message, "signed": signed }).to_string(),
        }
    }
}
