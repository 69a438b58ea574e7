//! Tampering with the audit table from outside, and what the check says about it.
//!
//! The hash is written here a second time, from its description: if the two ever differ, chains that
//! were stored before no longer verify.

use aws_lc_rs::digest;
use plexus_proto::CallId;
use plexus_proto::api::{AuditHead, AuditPhase, AuditReport, ProblemKind};
use plexus_store::{NewAudit, Records};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqliteRow};

use crate::backend::{Database, Sqlite, at, audit, bounded};

/// Everything that is hashed, in the order in which it is; `prev_hash` comes before.
const HASHED: &str = "hub, CAST(n AS TEXT), CAST(at AS TEXT), phase, call_id, token_id, actor, session_id, tool, \
                      via, outcome, detail";

struct Chain {
    db: Database<Sqlite>,
    raw: SqlitePool,
    /// As it was signed, before anyone tampered.
    signed: AuditHead,
}

impl Chain {
    /// A whole chain of `length` entries.
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
        assert!(done.rows_affected() > 0, "nothing was tampered with: {sql}");
    }

    /// Exchanges the places of two entries.
    async fn swap(&self) {
        self.run(
            "UPDATE audit SET n = -3 WHERE n = 3; UPDATE audit SET n = 3 WHERE n = 4; \
             UPDATE audit SET n = 4 WHERE n = -3",
        )
        .await;
    }

    /// Makes the hash of each entry from `from` on fit its content; with `relink` also makes each
    /// follow the one before it.
    async fn refit(&self, from: i64, relink: bool) {
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

/// SHA-256 over every field with its length before it (eight bytes, big-endian); a field that is
/// absent is eight bytes of ones.
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
async fn an_intact_chain_is_whole_and_hashed_as_described() {
    bounded(async {
        let chain = Chain::of(10).await;
        let report = chain.verify().await;
        assert_eq!((report.ok, report.entries, report.problem_count), (true, 10, 0), "{report:#?}");
        assert_eq!(
            (report.head.as_ref(), report.signed.as_ref()),
            (Some(&chain.signed), Some(&chain.signed))
        );
        // Writing every hash again, by the description, changes none.
        chain.refit(1, true).await;
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
async fn a_head_that_lags_behind_the_table_is_no_problem() {
    bounded(async {
        let chain = Chain::of(4).await;
        let more = vec![audit(AuditPhase::Started, CallId::new(), "agent:a", "todo")];
        chain.db.store.append(Records { audit: more, events: vec![] }).await.unwrap();
        chain.expect(&[]).await;
    })
    .await;
}

#[tokio::test]
async fn a_change_in_any_column_is_found_and_its_entry_named() {
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
            // The end of one field moved to the beginning of the next.
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
async fn a_changed_entry_whose_hash_was_made_to_fit_is_found_at_the_next_one() {
    bounded(async {
        let chain = Chain::of(8).await;
        chain.run("UPDATE audit SET detail = '{}' WHERE n = 5").await;
        chain.refit(5, false).await;
        chain.expect(&[(ProblemKind::Reordered, 6)]).await;
    })
    .await;
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_named_like_a_changed_one() {
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
async fn missing_entries_are_named_at_the_first_one_that_is_gone() {
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
async fn an_entry_put_before_the_first_is_found() {
    bounded(async {
        let chain = Chain::of(3).await;
        chain
            .run(
                "INSERT INTO audit SELECT hub, 0, at, phase, 'x' || call_id, token_id, 'agent:forged', \
                 session_id, tool, via, outcome, detail, prev_hash, hash FROM audit WHERE n = 1",
            )
            .await;
        let report = chain.verify().await;
        assert!(!report.ok, "an entry that nobody wrote goes unnoticed");
        assert_eq!(report.problems[0].n, 0);
    })
    .await;
}

#[tokio::test]
async fn two_entries_that_changed_places_are_named_as_reordered() {
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
async fn two_entries_that_changed_places_and_got_fitting_hashes_are_named_as_reordered() {
    bounded(async {
        let chain = Chain::of(8).await;
        chain.swap().await;
        chain.refit(3, false).await;
        let reordered = [3, 4, 5].map(|n| (ProblemKind::Reordered, n));
        chain.expect(&reordered).await;
    })
    .await;
}

#[tokio::test]
async fn a_chain_rewritten_with_fitting_hashes_is_not_the_one_that_was_signed() {
    bounded(async {
        for sql in [
            "UPDATE audit SET actor = 'agent:b' WHERE n = 2",
            // The last one, which nothing follows.
            "UPDATE audit SET detail = '{}' WHERE n = 8",
            // An entry taken out and the gap closed, one added at the end to keep the number.
            "DELETE FROM audit WHERE n = 5; UPDATE audit SET n = n - 1 WHERE n > 5; \
             INSERT INTO audit SELECT hub, 8, at, phase, call_id, token_id, actor, session_id, tool, via, \
             outcome, detail, prev_hash, hash FROM audit WHERE n = 7",
        ] {
            let chain = Chain::of(8).await;
            chain.run(sql).await;
            chain.refit(1, true).await;
            chain.expect(&[(ProblemKind::Rewritten, 8)]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn newest_entries_that_are_gone_are_named_from_the_first() {
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
async fn entries_without_a_signed_head_are_a_problem_and_none_are_not() {
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
async fn every_problem_is_counted_and_the_first_hundred_are_named() {
    bounded(async {
        let chain = Chain::of(130).await;
        chain.run("UPDATE audit SET actor = 'agent:b'").await;
        let report = chain.verify().await;
        assert_eq!((report.ok, report.problem_count, report.problems.len()), (false, 130, 100));
    })
    .await;
}

#[tokio::test]
async fn a_break_found_at_start_stays_in_the_chain() {
    bounded(async {
        let chain = Chain::of(5).await;
        chain.run("DELETE FROM audit WHERE n = 5").await;
        let db = chain.db.reopened().await;
        let found = db.store.read().await.unwrap().audit_break(&chain.signed).await.unwrap();
        let found = found.expect("the signed entry is gone");
        let notice = NewAudit::chain_break(at(9), Some(&chain.signed), &found);
        db.store.append(Records { audit: vec![notice], events: vec![] }).await.unwrap();
        // Signed anew, the chain is whole from here on; that it was broken is still told.
        let head = db.head().await;
        let report = db.store.verify_audit(Ok(head.clone()), &plexus_store::NoWitness).await.unwrap();
        assert_eq!((report.ok, named(&report)), (false, vec![(ProblemKind::BreakAtStart, 5)]));
        let whole = db.store.read().await.unwrap().audit_break(&head.unwrap()).await.unwrap();
        assert_eq!(whole, None);
    })
    .await;
}
