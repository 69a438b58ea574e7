//! Rules for retention.

use std::sync::Arc;

use plexus_proto::CallId;
use plexus_proto::api::{AuditPhase, ProblemKind};
use plexus_store::{AuditFilter, NewAudit, Records, Witness};

use crate::backend::{Backend, Database, Sqlite, at, audit, bounded, event, events, seqs};

/// A witness with simple signatures that a test can forge on purpose.
#[derive(Debug)]
struct Seal;

impl Witness for Seal {
    fn sign(&self, statement: &str) -> String {
        format!("sealed {}", statement.len())
    }

    fn is_valid_signature(&self, statement: &str, signature: &str) -> bool {
        self.sign(statement) == signature
    }
}

fn entry(millis: i64) -> NewAudit {
    NewAudit { at: at(millis), ..audit(AuditPhase::Started, CallId::new(), "agent:a", "x") }
}

async fn append(database: &Database<impl Backend>, entries: Vec<NewAudit>) {
    database.store.append(Records { audit: entries, events: vec![] }).await.unwrap();
    database.store.settle().await.unwrap();
}

/// The number of remaining entries, and whether they verify.
async fn verified(database: &Database<impl Backend>) -> (i64, bool) {
    let head = database.head().await;
    let report = database.store.verify_audit(Ok(head), &Seal).await.unwrap();
    (report.entries, report.ok)
}

pub(crate) async fn audit_verifies_after_old_entries_are_removed(database: Database<impl Backend>) {
    append(&database, (0..20).map(entry).collect()).await;
    // Removes neither the signed entry and later ones, nor recent ones.
    assert_eq!(database.store.prune_audit(at(10), 6, at(100), Arc::new(Seal)).await.unwrap(), 5);
    assert_eq!(verified(&database).await, (16, true), "15 entries and the notice");
    assert_eq!(database.store.prune_audit(at(10), 20, at(101), Arc::new(Seal)).await.unwrap(), 5);
    assert_eq!(
        database.store.prune_audit(at(10), 20, at(101), Arc::new(Seal)).await.unwrap(),
        0,
        "and no notice of nothing"
    );
    assert_eq!(verified(&database).await, (12, true), "10 entries and both notices");
    append(&database, vec![entry(200)]).await;
    let database = database.reopened().await;
    append(&database, vec![entry(201)]).await;
    assert_eq!(verified(&database).await, (14, true));
    // All old entries except the signed one.
    assert_eq!(database.store.prune_audit(at(1_000), 24, at(1_001), Arc::new(Seal)).await.unwrap(), 13);
    assert_eq!(verified(&database).await, (2, true));
}

pub(crate) async fn known_breaks_outlive_their_entries(database: Database<impl Backend>) {
    append(&database, vec![entry(0), NewAudit::chain_break(at(1), None, "somebody was here"), entry(2)])
        .await;
    for round in 0..2 {
        append(&database, vec![entry(10 + round)]).await;
        let last = database.head().await.unwrap().n;
        assert!(database.store.prune_audit(at(1_000), last, at(20), Arc::new(Seal)).await.unwrap() > 0);
        let head = database.head().await;
        let report = database.store.verify_audit(Ok(head), &Seal).await.unwrap();
        let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
        assert_eq!(problem.kind, ProblemKind::BreakAtStart);
        assert!(problem.message.contains("somebody was here"), "{problem:?}");
        assert!(database.store.read().await.unwrap().audit_was_broken("main", &Seal).await.unwrap());
    }
}

pub(crate) async fn unsigned_audit_is_truncated_by_age_and_count(database: Database<impl Backend>) {
    append(&database, (0..20).map(entry).collect()).await;
    assert_eq!(database.store.prune_unsigned_audit(at(0), 20).await.unwrap(), 0);
    assert_eq!(database.store.prune_unsigned_audit(at(5), 20).await.unwrap(), 5, "the old ones");
    assert_eq!(database.store.prune_unsigned_audit(at(5), 10).await.unwrap(), 5, "the excess ones");
    assert_eq!(listed(&database).await, 10);
    // All of them are old; the chain continues from the newest.
    assert_eq!(database.store.prune_unsigned_audit(at(1_000), 10).await.unwrap(), 9);
    let last = database.head().await.unwrap().n;
    let database = database.reopened().await;
    append(&database, vec![entry(200)]).await;
    assert_eq!(database.head().await.unwrap().n, last + 1);
    assert_eq!(listed(&database).await, 2);
}

/// Number of listed calls.
async fn listed(database: &Database<impl Backend>) -> usize {
    let mut reader = database.store.read().await.unwrap();
    reader.audit_calls("main", &AuditFilter::default(), 100).await.unwrap().len()
}

pub(crate) async fn removing_old_events_keeps_the_numbers_of_others(database: Database<impl Backend>) {
    let (a, b) = (database.session("agent:a", "a").await, database.session("agent:a", "b").await);
    for number in 0..10 {
        let mut event = event("agent:a", number);
        event.at = at(number as i64);
        database.store.append(events(if number % 2 == 0 { a } else { b }, [event])).await.unwrap();
    }
    assert_eq!(database.store.prune_events(at(0)).await.unwrap(), 0);
    assert_eq!(database.store.prune_events(at(7)).await.unwrap(), 7);
    assert_eq!(seqs(&database.events(a).await), [5]);
    assert_eq!(seqs(&database.events(b).await), [4, 5]);
    database.store.append(events(a, [event("agent:a", 10)])).await.unwrap();
    assert_eq!(seqs(&database.events(a).await), [5, 6]);
    let positions: Vec<i64> = database.events(a).await.iter().map(|event| event.pos).collect();
    assert_eq!(positions, [9, 11]);
}

/// Simulates someone with write access to the database.
async fn tamper(database: &Database<Sqlite>, sql: &'static str) {
    let file =
        sqlx::sqlite::SqliteConnectOptions::new().filename(database.backend.dir.path().join("plexus.db"));
    let pool = sqlx::SqlitePool::connect_with(file).await.unwrap();
    sqlx::query(sql).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn unsigned_removal_notice_is_ignored() {
    bounded(async {
        let database = Database::<Sqlite>::fresh().await.unwrap();
        append(&database, (0..20).map(entry).collect()).await;
        let hash = database.head().await.unwrap().hash.clone();
        let detail =
            serde_json::json!({ "through": 20, "hash": hash, "breaks": [], "signature": "sealed 1" });
        let forged = NewAudit {
            phase: AuditPhase::Notice,
            outcome: "pruned".into(),
            via: "retention".into(),
            detail: detail.to_string(),
            ..entry(21)
        };
        append(&database, vec![forged]).await;
        tamper(&database, "DELETE FROM audit WHERE n <= 20").await;
        let head = database.head().await;
        let report = database.store.verify_audit(Ok(head), &Seal).await.unwrap();
        assert_eq!(
            report.problems.first().map(|problem| problem.kind),
            Some(ProblemKind::Missing),
            "{report:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn retention_keeps_modified_entries() {
    for sql in [
        "DELETE FROM audit WHERE n BETWEEN 3 AND 6",
        "UPDATE audit SET actor = 'agent:innocent' WHERE n = 8",
        // Makes the entries look old, so that they are removed.
        "UPDATE audit SET at = 0 WHERE n <= 15",
    ] {
        bounded(async {
            let database = Database::<Sqlite>::fresh().await.unwrap();
            append(&database, (0..20).map(entry).collect()).await;
            tamper(&database, sql).await;
            assert_eq!(
                database.store.prune_audit(at(10), 20, at(100), Arc::new(Seal)).await.unwrap(),
                0,
                "{sql}"
            );
            let (_, whole) = verified(&database).await;
            assert!(!whole, "{sql}");
        })
        .await;
    }
}

#[tokio::test]
async fn consistent_chain_without_the_signed_entry_is_rejected() {
    bounded(async {
        let database = Database::<Sqlite>::fresh().await.unwrap();
        append(&database, (0..20).map(entry).collect()).await;
        let signed = database.head().await.unwrap();
        // A genuine notice that removes everything including the signed entry.
        assert_eq!(database.store.prune_audit(at(100), 21, at(100), Arc::new(Seal)).await.unwrap(), 20);
        let report = database.store.verify_audit(Ok(Some(signed)), &Seal).await.unwrap();
        assert_eq!(
            report.problems.first().map(|problem| problem.kind),
            Some(ProblemKind::Rewritten),
            "{report:?}"
        );
    })
    .await;
}
