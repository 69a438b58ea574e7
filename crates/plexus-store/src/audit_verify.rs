//! Verifies the chain: recomputes every link, and compares the end with the signed head.

use plexus_proto::api::{AuditEntry, AuditHead, AuditProblem, AuditReport, ProblemKind};

use crate::audit_chain::{BREAK_OUTCOME, ChainedEntry, GENESIS, PRUNED_OUTCOME};
use crate::{Conn, Store, StoreError, Witness};

/// Maximum number of problems described in a report; further ones are only counted.
const PROBLEMS_NAMED: usize = 100;
/// Rows read at a time.
const PAGE: i64 = 2_000;

/// A stored row, or the number of an unreadable one.
pub(crate) type Link = Result<ChainedEntry, Option<i64>>;

/// Walks the chain link by link and collects problems.
#[derive(Default)]
struct Walk {
    last: Option<(i64, String)>,
    entries: i64,
    problems: Vec<AuditProblem>,
    problem_count: u64,
    /// Entries whose hash does not match their position: modified or moved.
    misfits: Vec<ChainedEntry>,
}

impl Walk {
    fn problem(&mut self, kind: ProblemKind, n: i64, message: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_NAMED {
            self.problems.push(AuditProblem { kind, n, message });
        }
    }

    /// Expected number of the next entry.
    fn next_n(&self) -> i64 {
        self.last.as_ref().map_or(1, |(n, _)| n + 1)
    }

    /// Returns false if the walk cannot continue.
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

    /// Reports missing entries before `n`, and returns whether there are any.
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
            let message = format!("entry {} was not written by a hub: numbers start at 1", entry.n);
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
            let message =
                format!("entry {} does not follow entry {last_n}: entries were swapped or replaced", entry.n);
            self.problem(ProblemKind::Reordered, entry.n, message);
        }
    }

    /// Distinguishes moved entries, which match the position of another mismatch, from modified ones.
    fn sort_misfits(&mut self) {
        let misfits = std::mem::take(&mut self.misfits);
        let positions: Vec<i64> = misfits.iter().map(|entry| entry.n).collect();
        for entry in misfits {
            let n = entry.n;
            let home =
                positions.iter().copied().find(|position| *position != n && entry.matches_as(*position));
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

/// A walk over one hub's chain, page by page.
struct Verifier {
    hub: String,
    signed: Result<Option<AuditHead>, String>,
    walk: Walk,
    /// Hash of the entry with the number of the signed head.
    at_signed: Option<String>,
    after: i64,
}

impl Verifier {
    /// Starts at the first entry, or where a retention notice says that the entries start. Such a notice
    /// counts only if the hub signed it.
    async fn begin(
        conn: &mut Conn,
        hub: &str,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
    ) -> Result<Self, StoreError> {
        let mut walk = Walk::default();
        if let Some(pruned) = conn.audit_pruned(hub, witness).await? {
            for message in pruned.breaks {
                walk.problem(ProblemKind::BreakAtStart, pruned.through, message);
            }
            walk.last = Some((pruned.through, pruned.hash));
        }
        // Below any valid number, so that no row can hide before the first entry.
        Ok(Self { hub: hub.to_owned(), signed, walk, at_signed: None, after: i64::MIN })
    }

    /// Starts `newest` entries before the end, or where [`begin`](Self::begin) does if that is later.
    async fn begin_near_end(
        conn: &mut Conn,
        hub: &str,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
        newest: i64,
    ) -> Result<Self, StoreError> {
        let mut verifier = Self::begin(conn, hub, signed, witness).await?;
        let end = conn.audit_head(hub).await?.map_or(0, |head| head.n);
        let before = end.saturating_sub(newest.max(1));
        if before <= verifier.walk.last.as_ref().map_or(0, |(n, _)| *n) {
            return Ok(verifier);
        }
        // The hash before the first entry is unknown, so that link is not compared.
        verifier.walk.last = Some((before, String::new()));
        verifier.after = before;
        if let Ok(Some(signed)) = &verifier.signed
            && signed.n <= before
        {
            let link = conn.audit_links(hub, signed.n - 1, 1).await?.pop();
            verifier.at_signed =
                link.and_then(Result::ok).filter(|entry| entry.n == signed.n).map(|entry| entry.hash);
        }
        Ok(verifier)
    }

    /// Reads one page; returns false at the end.
    async fn page(&mut self, conn: &mut Conn) -> Result<bool, StoreError> {
        let links = conn.audit_links(&self.hub, self.after, PAGE).await?;
        let whole_page = links.len() as i64 == PAGE;
        for link in links {
            if let Ok(entry) = &link {
                self.after = entry.n;
                if matches!(&self.signed, Ok(Some(signed)) if signed.n == entry.n) {
                    self.at_signed = Some(entry.hash.clone());
                }
            } else if let Err(Some(n)) = link {
                self.after = n;
            }
            if !self.walk.link(link) {
                return Ok(false);
            }
        }
        Ok(whole_page)
    }

    async fn finish(self, conn: &mut Conn) -> Result<AuditReport, StoreError> {
        let Self { hub, signed, mut walk, at_signed, .. } = self;
        walk.sort_misfits();
        for notice in conn.audit_notices(&hub, BREAK_OUTCOME, PROBLEMS_NAMED as i64).await? {
            walk.problem(ProblemKind::BreakAtStart, notice.n, break_message(&notice));
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

/// The report text for a break that a hub found at startup.
fn break_message(notice: &AuditEntry) -> String {
    format!("found by the hub at startup: {}", notice.detail["message"].as_str().unwrap_or("?"))
}

impl Store {
    /// Recomputes this hub's chain and compares it with the signed head; an `Err` in `signed` says why the
    /// head cannot be used.
    pub async fn verify_audit(
        &self,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
    ) -> Result<AuditReport, StoreError> {
        self.verify_from(signed, witness, i64::MAX).await
    }

    /// The same for the newest `newest` entries only: a short look that does not grow with the chain. What lies before
    /// them is not verified.
    pub async fn verify_audit_end(
        &self,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
        newest: i64,
    ) -> Result<AuditReport, StoreError> {
        self.verify_from(signed, witness, newest).await
    }

    async fn verify_from(
        &self,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
        newest: i64,
    ) -> Result<AuditReport, StoreError> {
        let hub = self.instance_id();
        loop {
            let from = self.read().await?.audit_pruned(hub, witness).await?.map(|pruned| pruned.through);
            let mut verifier = Verifier::begin_near_end(
                &mut *self.read_committed().await?,
                hub,
                signed.clone(),
                witness,
                newest,
            )
            .await?;
            // Borrows a reader for one page at a time, because there are few of them.
            while verifier.page(&mut *self.read_committed().await?).await? {
                // A long chain must not block the runtime.
                tokio::task::yield_now().await;
            }
            let report = verifier.finish(&mut *self.read_committed().await?).await?;
            let now =
                self.read_committed().await?.audit_pruned(hub, witness).await?.map(|pruned| pruned.through);
            // Entries removed by a policy in the meantime are not missing: verify again.
            if report.ok || from == now {
                return Ok(report);
            }
        }
    }
}

impl Conn {
    /// As [`Store::verify_audit`] on one connection, and so on one snapshot if it is in a transaction.
    pub(crate) async fn verify_audit(
        &mut self,
        hub: &str,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
    ) -> Result<AuditReport, StoreError> {
        self.verify_audit_end(hub, signed, witness, i64::MAX).await
    }

    /// The same for the newest `newest` entries only.
    pub(crate) async fn verify_audit_end(
        &mut self,
        hub: &str,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
        newest: i64,
    ) -> Result<AuditReport, StoreError> {
        let mut verifier = Verifier::begin_near_end(self, hub, signed, witness, newest).await?;
        while verifier.page(self).await? {}
        verifier.finish(self).await
    }

    /// Whether the oldest entries, at most `limit` of them and up to number `through`, are unmodified.
    /// Checked before they are removed.
    pub(crate) async fn audit_begins_whole(
        &mut self,
        hub: &str,
        through: i64,
        limit: i64,
        witness: &dyn Witness,
    ) -> Result<bool, StoreError> {
        let pruned = self.audit_pruned(hub, witness).await?;
        let mut walk = Walk { last: pruned.map(|pruned| (pruned.through, pruned.hash)), ..Walk::default() };
        for link in self.audit_links(hub, i64::MIN, limit).await? {
            if matches!(&link, Ok(entry) if entry.n > through) {
                break;
            }
            if !walk.link(link) {
                return Ok(false);
            }
        }
        walk.sort_misfits();
        Ok(walk.problem_count == 0)
    }
}

/// The latest removal by a retention policy: the number and hash of the last removed entry, and the known
/// breaks in the removed part.
pub(crate) struct Pruned {
    pub(crate) through: i64,
    pub(crate) hash: String,
    pub(crate) breaks: Vec<String>,
}

impl Pruned {
    /// The text that the hub signs.
    pub(crate) fn statement(&self, hub: &str) -> String {
        let breaks = serde_json::json!(self.breaks);
        format!("plexus audit pruned\0{hub}\0{}\0{}\0{breaks}", self.through, self.hash)
    }
}

impl Conn {
    /// The latest removal, from the newest notice whose signature the witness verifies.
    pub(crate) async fn audit_pruned(
        &mut self,
        hub: &str,
        witness: &dyn Witness,
    ) -> Result<Option<Pruned>, StoreError> {
        let notices = self.audit_notices(hub, PRUNED_OUTCOME, i64::MAX).await?;
        let pruned = notices.into_iter().filter_map(|notice| {
            let pruned = Pruned {
                through: notice.detail["through"].as_i64()?,
                hash: notice.detail["hash"].as_str()?.to_owned(),
                breaks: serde_json::from_value(notice.detail["breaks"].clone()).ok()?,
            };
            let signature = notice.detail["signature"].as_str()?;
            witness.is_valid_signature(&pruned.statement(hub), signature).then_some(pruned)
        });
        Ok(pruned.max_by_key(|pruned| pruned.through))
    }

    /// Known breaks in entries up to number `through`.
    pub(crate) async fn audit_breaks(
        &mut self,
        hub: &str,
        through: i64,
        witness: &dyn Witness,
    ) -> Result<Vec<String>, StoreError> {
        let earlier = self.audit_pruned(hub, witness).await?.map(|pruned| pruned.breaks).unwrap_or_default();
        let notices = self.audit_notices(hub, BREAK_OUTCOME, PROBLEMS_NAMED as i64).await?;
        let removed = notices.iter().filter(|notice| notice.n <= through).map(break_message);
        Ok(earlier.into_iter().chain(removed).take(PROBLEMS_NAMED).collect())
    }
}

fn compare_with_head(walk: &mut Walk, signed: &AuditHead, at_signed: Option<&str>, last_n: i64) {
    if signed.n > last_n {
        let message = format!(
            "the newest entries are missing: the signed head is entry {}, the table ends at {last_n}",
            signed.n
        );
        walk.problem(ProblemKind::CutOff, last_n + 1, message);
    } else if at_signed.is_some_and(|hash| hash != signed.hash)
        // If everything else is consistent, a missing signed entry was replaced by others.
        || (at_signed.is_none() && signed.n > 0 && walk.problem_count == 0)
    {
        let message = format!("entry {} is not the one that was signed: the chain was rewritten", signed.n);
        walk.problem(ProblemKind::Rewritten, signed.n, message);
    }
}

impl Conn {
    /// Compares the newest rows with the signed head at startup, without walking the chain.
    pub async fn audit_break(&mut self, signed: &AuditHead) -> Result<Option<String>, StoreError> {
        if signed.n == 0 {
            // Signed before the first entry: nothing can be missing.
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
