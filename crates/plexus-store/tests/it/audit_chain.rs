//! Detection of tampering with the audit table.
//!
//! The hash is implemented here a second time, from its description: if the two ever differ, chains stored
//! earlier no longer verify.

use aws_lc_rs::digest;
use plexus_proto::CallId;
use plexus_proto::api::{AuditHead, AuditPhase, AuditReport, ProblemKind};
use plexus_store::{NewAudit, Records};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqliteRow};

use crate::backend::{Database, Sqlite, at, audit, bounded};

/// All hashed fields in order, after `prev_hash`.
const HASHED: &str = "hub, CAST(n AS TEXT), CAST(at AS TEXT), phase, call_id, token_id, actor, session_id, tool, \
                      via, outcome, detail";

struct Chain {
    db: Database<Sqlite>,
    raw: SqlitePool,
    /// The signed head, before any tampering.
    signed: AuditHead,
}

impl Chain {
    /// An intact chain of `length` entries.
    async fn of(length: usize) -> Self {
        let db = Database::<Sqlite>::fresh().await.unwrap();
        let session_id = Some(db.session("agent:a", "k").await);
        for number in 0..length {
            let (phase, call_id) = (AuditPhase::Started, CallId::new());
            let entry = NewAudit {
                at: at(number as i64),
                // Present, absent and empty fields.
                session_id: session_id.filter(|_| number % 2 == 0),
                detail: format!(r#"{{"number":{number},"text":"ü"}}"#),
                ..audit(phase, call_id, "agent:a", if number % 3 == 0 { "" } else { "todo" })
            };
            db.store.append(Records { audit: vec![entry], events: vec![] }).await.unwrap();
        }
        let file = SqliteConnectOptions::new().filename(db.backend.dir.path().join("plexus.db"));
        let raw = SqlitePool::connect_with(file).await.unwrap();
        let signed = db.head().await.unwrap();
        Self { db, raw, signed }
    }

    async fn run(&self, sql: &'static str) {
        let done = sqlx::raw_sql(sql).execute(&self.raw).await.unwrap();
        assert!(done.rows_affected() > 0, "the statement changed nothing: {sql}");
    }

    /// Swaps two entries.
    async fn swap(&self) {
        self.run(
            "UPDATE audit SET n = -3 WHERE n = 3; UPDATE audit SET n = 3 WHERE n = 4; \
             UPDATE audit SET n = 4 WHERE n = -3",
        )
        .await;
    }

    /// Recomputes the hash of each entry from `from` on; with `relink` also links each to its predecessor.
    async fn recompute_hashes(&self, from: i64, relink: bool) {
        let sql = sqlx::AssertSqlSafe(format!("SELECT prev_hash, n, {HASHED} FROM audit ORDER BY n"));
        let mut last = "0".repeat(64);
        for row in sqlx::query(sql).fetch_all(&self.raw).await.unwrap() {
            let n: i64 = row.get(1);
            let prev: String = if relink { last } else { row.get(0) };
            last = rehash(&prev, &row);
            if n >= from {
                sqlx::query("UPDATE audit SET prev_hash = $1, hash = $2 WHERE n = $3")
                    .bind(&prev)
                    .bind(&last)
                    .bind(n)
                    .execute(&self.raw)
                    .await
                    .unwrap();
            }
        }
    }

    async fn verify(&self) -> AuditReport {
        self.db.store.verify_audit(Ok(Some(self.signed.clone())), &plexus_store::NoWitness).await.unwrap()
    }

    /// Checks that exactly these problems are reported.
    async fn expect(&self, expected: &[(ProblemKind, i64)]) {
        let report = self.verify().await;
        assert_eq!(named(&report), expected, "{report:#?}");
        assert_eq!((report.ok, report.problem_count), (expected.is_empty(), expected.len() as u64));
    }
}

fn named(report: &AuditReport) -> Vec<(ProblemKind, i64)> {
    report.problems.iter().map(|problem| (problem.kind, problem.n)).collect()
}

/// SHA-256 over every field, prefixed with its length (eight bytes, big-endian); an absent field is eight
/// bytes of ones.
fn rehash(prev: &str, row: &SqliteRow) -> String {
    let fields = std::iter::once(Some(prev.to_owned()))
        .chain((2..row.len()).map(|column| row.get::<Option<String>, _>(column)));
    let mut bytes = Vec::new();
    for field in fields {
        match field {
            None => bytes.extend([0xFF; 8]),
            Some(text) => {
                bytes.extend((text.len() as u64).to_be_bytes());
                bytes.extend(text.into_bytes());
            }
        }
    }
    digest::digest(&digest::SHA256, &bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn intact_chain_verifies_and_hashes_as_documented() {
    bounded(async {
        let chain = Chain::of(10).await;
        let report = chain.verify().await;
        assert_eq!((report.ok, report.entries, report.problem_count), (true, 10, 0), "{report:#?}");
        assert_eq!(
            (report.head.as_ref(), report.signed.as_ref()),
            (Some(&chain.signed), Some(&chain.signed))
        );
        // Recomputing every hash from the description changes none.
        chain.recompute_hashes(1, true).await;
        chain.expect(&[]).await;
    })
    .await;
}

#[tokio::test]
async fn verification_of_the_end_finds_recent_changes_and_reads_no_more_than_asked() {
    bounded(async {
        let chain = Chain::of(20).await;
        let end = async |signed: AuditHead| {
            chain.db.store.verify_audit_end(Ok(Some(signed)), &plexus_store::NoWitness, 5).await.unwrap()
        };
        let report = end(chain.signed.clone()).await;
        assert_eq!((report.ok, report.entries), (true, 5), "{report:#?}");
        // A head from before the end is looked up.
        let older = AuditHead { n: 3, hash: chain.signed.hash.clone(), hub: chain.signed.hub.clone() };
        assert_eq!(named(&end(older).await), [(ProblemKind::Rewritten, 3)]);
        chain.run("UPDATE audit SET actor = 'agent:x' WHERE n = 2").await;
        assert!(end(chain.signed.clone()).await.ok, "what lies before the end is not read");
        chain.run("UPDATE audit SET actor = 'agent:x' WHERE n = 18").await;
        assert_eq!(named(&end(chain.signed.clone()).await), [(ProblemKind::Changed, 18)]);
        chain.expect(&[(ProblemKind::Changed, 2), (ProblemKind::Changed, 18)]).await;
    })
    .await;
}

#[tokio::test]
async fn signed_head_may_lag_behind_the_table() {
    bounded(async {
        let chain = Chain::of(4).await;
        let more = vec![audit(AuditPhase::Started, CallId::new(), "agent:a", "todo")];
        chain.db.store.append(Records { audit: more, events: vec![] }).await.unwrap();
        chain.expect(&[]).await;
    })
    .await;
}

#[tokio::test]
async fn change_in_any_column_is_detected() {
    bounded(async {
        for sql in [
            "UPDATE audit SET at = at + 1 WHERE n = 5",
            "UPDATE audit SET phase = 'finished' WHERE n = 5",
            "UPDATE audit SET call_id = NULL WHERE n = 5",
            "UPDATE audit SET token_id = '' WHERE n = 5",
            "UPDATE audit SET actor = 'agent:b' WHERE n = 5",
            "UPDATE audit SET session_id = NULL WHERE n = 5",
            "UPDATE audit SET tool = 'other' WHERE n = 5",
            "UPDATE audit SET via = 'mcp' WHERE n = 5",
            "UPDATE audit SET outcome = 'ok' WHERE n = 5",
            "UPDATE audit SET detail = detail || ' ' WHERE n = 5",
            // Data moved from the end of one field to the start of the next.
            "UPDATE audit SET tool = 'tod', via = 'orest' WHERE n = 5",
        ] {
            let chain = Chain::of(8).await;
            chain.run(sql).await;
            chain.expect(&[(ProblemKind::Changed, 5)]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn changed_entry_with_recomputed_hash_breaks_the_next_link() {
    bounded(async {
        let chain = Chain::of(8).await;
        chain.run("UPDATE audit SET detail = '{}' WHERE n = 5").await;
        chain.recompute_hashes(5, false).await;
        chain.expect(&[(ProblemKind::Reordered, 6)]).await;
    })
    .await;
}

#[tokio::test]
async fn unreadable_entry_is_reported_as_changed() {
    bounded(async {
        for sql in [
            "UPDATE audit SET at = 'yesterday' WHERE n = 5",
            "UPDATE audit SET detail = x'FF00FE' WHERE n = 5",
        ] {
            let chain = Chain::of(8).await;
            chain.run(sql).await;
            chain.expect(&[(ProblemKind::Changed, 5)]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn missing_entries_are_reported_at_the_first() {
    bounded(async {
        for (sql, first) in [
            ("DELETE FROM audit WHERE n = 5", 5),
            ("DELETE FROM audit WHERE n BETWEEN 4 AND 6", 4),
            ("DELETE FROM audit WHERE n = 1", 1),
        ] {
            let chain = Chain::of(8).await;
            chain.run(sql).await;
            chain.expect(&[(ProblemKind::Missing, first)]).await;
            let message = chain.verify().await.problems.remove(0).message;
            assert!(message.contains(&first.to_string()), "{message}");
        }
    })
    .await;
}

#[tokio::test]
async fn entry_before_the_first_is_detected() {
    bounded(async {
        let chain = Chain::of(3).await;
        chain
            .run(
                "INSERT INTO audit SELECT hub, 0, at, phase, 'x' || call_id, token_id, 'agent:forged', \
                 session_id, tool, via, outcome, detail, prev_hash, hash FROM audit WHERE n = 1",
            )
            .await;
        let report = chain.verify().await;
        assert!(!report.ok, "an inserted entry was not detected");
        assert_eq!(report.problems[0].n, 0);
    })
    .await;
}

#[tokio::test]
async fn swapped_entries_are_reported_as_reordered() {
    bounded(async {
        let chain = Chain::of(8).await;
        chain.swap().await;
        let found = named(&chain.verify().await);
        for n in [3, 4] {
            assert!(found.contains(&(ProblemKind::Reordered, n)), "entry {n}: {found:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn swapped_entries_with_recomputed_hashes_are_reordered() {
    bounded(async {
        let chain = Chain::of(8).await;
        chain.swap().await;
        chain.recompute_hashes(3, false).await;
        let reordered = [3, 4, 5].map(|n| (ProblemKind::Reordered, n));
        chain.expect(&reordered).await;
    })
    .await;
}

#[tokio::test]
async fn rewritten_chain_does_not_match_the_signed_head() {
    bounded(async {
        for sql in [
            "UPDATE audit SET actor = 'agent:b' WHERE n = 2",
            // The last entry, which has no successor.
            "UPDATE audit SET detail = '{}' WHERE n = 8",
            // One entry removed with the gap closed, and one appended to keep the count.
            "DELETE FROM audit WHERE n = 5; UPDATE audit SET n = n - 1 WHERE n > 5; \
             INSERT INTO audit SELECT hub, 8, at, phase, call_id, token_id, actor, session_id, tool, via, \
             outcome, detail, prev_hash, hash FROM audit WHERE n = 7",
        ] {
            let chain = Chain::of(8).await;
            chain.run(sql).await;
            chain.recompute_hashes(1, true).await;
            chain.expect(&[(ProblemKind::Rewritten, 8)]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn truncated_chain_is_reported_from_the_first_missing_entry() {
    bounded(async {
        let chain = Chain::of(8).await;
        chain.run("DELETE FROM audit WHERE n > 6").await;
        chain.expect(&[(ProblemKind::CutOff, 7)]).await;
        chain.run("DELETE FROM audit").await;
        chain.expect(&[(ProblemKind::CutOff, 1)]).await;
    })
    .await;
}

#[tokio::test]
async fn entries_require_a_signed_head() {
    bounded(async {
        let chain = Chain::of(3).await;
        let report = chain.db.store.verify_audit(Ok(None), &plexus_store::NoWitness).await.unwrap();
        assert_eq!((report.ok, named(&report)), (false, vec![(ProblemKind::HeadInvalid, 3)]));
        let report = chain
            .db
            .store
            .verify_audit(Err("the signature does not fit".to_owned()), &plexus_store::NoWitness)
            .await
            .unwrap();
        assert_eq!((report.ok, named(&report)), (false, vec![(ProblemKind::HeadInvalid, 3)]));
        assert_eq!(report.problems[0].message, "the signature does not fit");
        let empty = Database::<Sqlite>::fresh().await.unwrap();
        assert!(empty.store.verify_audit(Ok(None), &plexus_store::NoWitness).await.unwrap().ok);
    })
    .await;
}

#[tokio::test]
async fn all_problems_are_counted_and_a_hundred_described() {
    bounded(async {
        let chain = Chain::of(130).await;
        chain.run("UPDATE audit SET actor = 'agent:b'").await;
        let report = chain.verify().await;
        assert_eq!((report.ok, report.problem_count, report.problems.len()), (false, 130, 100));
    })
    .await;
}

#[tokio::test]
async fn break_found_at_startup_is_kept_in_the_chain() {
    bounded(async {
        let chain = Chain::of(5).await;
        chain.run("DELETE FROM audit WHERE n = 5").await;
        let db = chain.db.reopened().await;
        let found = db.store.read().await.unwrap().audit_break(&chain.signed).await.unwrap();
        let found = found.expect("a break is found");
        let notice = NewAudit::chain_break(at(9), Some(&chain.signed), &found);
        db.store.append(Records { audit: vec![notice], events: vec![] }).await.unwrap();
        // After a new signature the chain is intact from here on, but the break is still reported.
        let head = db.head().await;
        let report = db.store.verify_audit(Ok(head.clone()), &plexus_store::NoWitness).await.unwrap();
        assert_eq!((report.ok, named(&report)), (false, vec![(ProblemKind::BreakAtStart, 5)]));
        let whole = db.store.read().await.unwrap().audit_break(&head.unwrap()).await.unwrap();
        assert_eq!(whole, None);
    })
    .await;
}
