//! Rules for the journal: acknowledged records are stored once and in order, whatever happens in between.

use std::path::{Path, PathBuf};

use futures_util::FutureExt;
use plexus_kit::Supervisor;
use plexus_proto::CallId;
use plexus_proto::api::AuditPhase;
use plexus_store::archive::{AuditState, Content, restore, write};
use plexus_store::{AppendError, JournalCopy, NoWitness, Records, Snapshot, Store, StoreError};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use crate::backend::{
    Backend, Database, LIMIT, Seeded, Sqlite, at, audit, audited, bounded, event, events, numbers, seqs,
    session,
};
use crate::writer::Gate;

/// Both audit entries of a call, and an event with this number.
fn record(session: plexus_proto::SessionId, number: usize) -> Records {
    Records {
        audit: audited(CallId::new(), "agent:a", "todo"),
        ..events(session, [event("agent:a", number)])
    }
}

/// Expects an immediate acknowledgement while the writer is blocked.
fn acknowledged(store: &Store, records: Records) {
    store.append(records).now_or_never().expect("the journal accepts it").unwrap();
}

pub(crate) async fn acknowledged_records_are_visible_to_the_next_reader<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    // The session becomes known with its first event.
    db.store.append(record(id, 0)).await.unwrap();
    for number in 1..50 {
        acknowledged(&db.store, record(id, number));
        assert_eq!(db.events(id).await.len(), number + 1);
    }
    let mut hints = db.store.event_hints();
    hints.mark_unchanged();
    acknowledged(&db.store, record(id, 50));
    // Stored although nobody requests it.
    hints.changed().await.unwrap();
    let mut reader = db.store.read_committed().await.unwrap();
    assert_eq!(reader.session(id).await.unwrap().unwrap().last_seq, 51);
    let report = db.store.verify_audit(Ok(db.head().await), &NoWitness).await.unwrap();
    assert_eq!((report.ok, report.entries), (true, 102), "{report:?}");
}

pub(crate) async fn unit_of_work_sees_earlier_acknowledged_records<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    db.store.append(record(id, 0)).await.unwrap();
    for round in 0..20 {
        let last = 2 * round + 1;
        acknowledged(&db.store, record(id, last));
        let appended = db
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        conn.append_events(id, Some(last as i64 + 1), vec![event("agent:a", last + 1)]).await
                    })
                },
                |_: &Result<_, AppendError>| Records::default(),
            )
            .await
            .unwrap();
        assert_eq!(appended.unwrap().last_seq, last as i64 + 2);
    }
    let stored = db.events(id).await;
    assert_eq!(numbers(&stored), (0..41).collect::<Vec<_>>());
    assert_eq!(seqs(&stored), (1..=41).collect::<Vec<_>>());
}

pub(crate) async fn archive_contains_unstored_journal_records<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    db.store.append(record(id, 0)).await.unwrap();
    acknowledged(&db.store, record(id, 1));
    db.store.settle().await.unwrap();
    let gate = Gate::close(&db.store).await;
    for number in 2..9 {
        acknowledged(&db.store, record(id, number));
    }
    let options = db.backend.options("main");
    let journal = JournalCopy::take(&options).unwrap();
    let mut snapshot = Snapshot::open(&options).await.unwrap().unwrap();
    let heads = snapshot.audit_heads().await.unwrap();
    let state = heads.into_iter().map(|head| AuditState { head, ok: true }).collect();
    let (name, segment) = journal.rest(&mut snapshot, "main").await.unwrap().expect("seven records");
    let files =
        vec![("signing-key".to_owned(), Content::Bytes(b"key".to_vec())), (name, Content::Bytes(segment))];
    let (_, archive) = write(&mut snapshot, Vec::new(), files, state, at(0), &mut |_, _| {}).await.unwrap();
    drop(snapshot);
    gate.open().await;

    let target = B::create().await.unwrap();
    let supervisor = Supervisor::new();
    restore(&target.options("main"), archive.as_slice(), &supervisor, &mut |_, _| {}).await.unwrap();
    supervisor.shutdown(LIMIT).await;
    let supervisor = Supervisor::new();
    let copy = Database { store: target.open("main", &supervisor).await, backend: target, supervisor };
    assert_eq!(numbers(&copy.events(id).await), (0..9).collect::<Vec<_>>());
    let report = copy.store.verify_audit(Ok(copy.head().await), &NoWitness).await.unwrap();
    assert_eq!((report.ok, report.entries), (true, 18), "{report:?}");

    // Once all records are in the rows, there is nothing to add.
    db.store.settle().await.unwrap();
    let journal = JournalCopy::take(&options).unwrap();
    let mut snapshot = Snapshot::open(&options).await.unwrap().unwrap();
    assert_eq!(journal.rest(&mut snapshot, "main").await.unwrap(), None);
}

pub(crate) async fn clean_shutdown_leaves_no_journal<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    db.store.append(record(id, 0)).await.unwrap();
    acknowledged(&db.store, record(id, 1));
    let folder = db.backend.options("main").data_dir.join("plexus.journal");
    assert_eq!(segments(&folder).len(), 1);
    assert!(db.supervisor.shutdown(LIMIT).await.aborted.is_empty());
    assert!(segments(&folder).is_empty());
    let db = db.reopened().await;
    assert_eq!(numbers(&db.events(id).await), [0, 1]);
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = paths.filter(|path| path.extension().unwrap() == "log").collect();
    segments.sort();
    segments
}

/// A copy of the files as a crash at this moment would leave them, for another hub to start on.
fn crashed(backend: &Sqlite) -> Sqlite {
    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
            if path.is_dir() {
                std::fs::create_dir(&target).unwrap();
                copy(&path, &target);
            // Recreated when the database is opened, as after a crash.
            } else if !path.to_string_lossy().ends_with("-shm") {
                std::fs::copy(&path, &target).unwrap();
            }
        }
    }
    let copied = Sqlite::new();
    copy(backend.dir.path(), copied.dir.path());
    copied
}

/// The events of a session that the next hub finds after a crash; its audit log must be intact.
async fn survived(backend: &Sqlite, id: plexus_proto::SessionId) -> Vec<u64> {
    let supervisor = Supervisor::new();
    let store = backend.open("main", &supervisor).await;
    let stored = store.read_committed().await.unwrap().events(id, 0, 100_000).await.unwrap();
    assert_eq!(seqs(&stored), (1..=stored.len() as i64).collect::<Vec<_>>());
    let head = store.audit_heads().borrow().clone();
    let report = store.verify_audit(Ok(head), &NoWitness).await.unwrap();
    assert_eq!((report.ok, report.entries), (true, 2 * stored.len() as i64), "{report:?}");
    // The log continues from there.
    store.append(record(id, 1_000_000)).await.unwrap();
    store.settle().await.unwrap();
    assert!(supervisor.shutdown(LIMIT).await.aborted.is_empty());
    numbers(&stored)
}

/// A crash at any time, including between the journal write, the commit and the removal of the segment, loses
/// nothing, duplicates nothing and keeps the order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_at_any_time_neither_loses_nor_duplicates_records() {
    bounded(async {
        for seed in [3, 20_261_116, 0xFEED] {
            let mut random = Seeded(seed);
            let mut db = Database::<Sqlite>::fresh().await.unwrap();
            let id = db.session("agent:a", "k").await;
            db.store.append(record(id, 0)).await.unwrap();
            let mut sent = 1;
            for _ in 0..8 {
                // Some of them are stored, the others are only in the journal.
                for _ in 0..random.below(30) {
                    db.store.append(record(id, sent)).await.unwrap();
                    sent += 1;
                    if random.below(10) == 0 {
                        db.store.settle().await.unwrap();
                    }
                }
                let gate = Gate::close(&db.store).await;
                for _ in 0..random.below(30) {
                    acknowledged(&db.store, record(id, sent));
                    sent += 1;
                }
                let crashed_copy = crashed(&db.backend);
                gate.open().await;
                let expected: Vec<u64> = (0..sent as u64).collect();
                assert_eq!(survived(&crashed_copy, id).await, expected, "seed {seed}");
                // After another crash, during or right after the replay, stored records are not stored again.
                let journal = crashed(&db.backend);
                db.store.settle().await.unwrap();
                let stored = crashed(&db.backend);
                let name = |path: &Path| path.join("plexus.journal");
                std::fs::remove_dir_all(name(stored.dir.path())).unwrap();
                std::fs::rename(name(journal.dir.path()), name(stored.dir.path())).unwrap();
                assert_eq!(survived(&stored, id).await, expected, "seed {seed}");
                if random.below(3) == 0 {
                    db = db.reopened().await;
                    db.store.append(record(id, sent)).await.unwrap();
                    sent += 1;
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_record_is_dropped_and_earlier_ones_are_kept() {
    bounded(async {
        let db = Database::<Sqlite>::fresh().await.unwrap();
        let id = db.session("agent:a", "k").await;
        db.store.append(record(id, 0)).await.unwrap();
        let gate = Gate::close(&db.store).await;
        let mut ends = Vec::new();
        for number in 1..6 {
            acknowledged(&db.store, record(id, number));
            ends.push(
                std::fs::metadata(&segments(&db.backend.dir.path().join("plexus.journal"))[0]).unwrap().len(),
            );
        }
        let mut random = Seeded(9);
        for _ in 0..10 {
            let crashed_copy = crashed(&db.backend);
            let segment = segments(&crashed_copy.dir.path().join("plexus.journal")).remove(0);
            let cut = ends[2] + random.below((ends[4] - ends[2]) as usize) as u64;
            std::fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(cut).unwrap();
            let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
            assert_eq!(
                survived(&crashed_copy, id).await,
                (0..=whole).collect::<Vec<_>>(),
                "cut at {cut} of {ends:?}"
            );
            assert!(!segment.exists());
        }
        gate.open().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_database_does_not_replay_a_foreign_journal() {
    bounded(async {
        let db = Database::<Sqlite>::fresh().await.unwrap();
        let id = db.session("agent:a", "k").await;
        db.store.append(record(id, 0)).await.unwrap();
        let gate = Gate::close(&db.store).await;
        acknowledged(&db.store, record(id, 1));
        let crashed_copy = crashed(&db.backend);
        gate.open().await;
        for file in ["plexus.db", "plexus.db-wal"] {
            std::fs::remove_file(crashed_copy.dir.path().join(file)).unwrap();
        }
        let folder = crashed_copy.dir.path().join("plexus.journal");
        let segment_file = segments(&folder).remove(0);
        let supervisor = Supervisor::new();
        let store = crashed_copy.open("main", &supervisor).await;
        assert_eq!(*store.audit_heads().borrow(), None);
        assert!(segment_file.with_extension("foreign").exists());
        drop(store);
        supervisor.shutdown(LIMIT).await;
    })
    .await;
}

/// While the database fails, only stored records are acknowledged; earlier ones remain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_commits_disable_the_journal_and_keep_its_records() {
    bounded(async {
        let db = Database::<Sqlite>::fresh().await.unwrap();
        let id = db.session("agent:a", "k").await;
        db.store.append(record(id, 0)).await.unwrap();
        let file = SqliteConnectOptions::new().filename(db.backend.dir.path().join("plexus.db"));
        let raw = SqlitePool::connect_with(file).await.unwrap();
        sqlx::query("ALTER TABLE session_events RENAME TO gone").execute(&raw).await.unwrap();
        acknowledged(&db.store, record(id, 1));
        let error = db.store.settle().await.unwrap_err();
        assert!(matches!(error, StoreError::Query { .. }), "{error:?}");
        let refused = db.store.append(record(id, 666)).await;
        assert!(refused.is_err(), "the caller was told that it is not stored");
        assert!(db.store.append_soon(record(id, 666)).await.is_err());
        assert!(db.store.read().await.is_err(), "acknowledged records cannot be read");
        db.store.read_committed().await.unwrap();
        sqlx::query("ALTER TABLE gone RENAME TO session_events").execute(&raw).await.unwrap();
        raw.close().await;
        // Stored automatically, without a request.
        let mut heads = db.store.audit_heads();
        heads.wait_for(|head| head.as_ref().is_some_and(|head| head.n == 4)).await.unwrap();
        db.store.append(record(id, 2)).await.unwrap();
        acknowledged(&db.store, record(id, 3));
        assert_eq!(numbers(&db.events(id).await), [0, 1, 2, 3]);
        let report = db.store.verify_audit(Ok(db.head().await), &NoWitness).await.unwrap();
        assert_eq!((report.ok, report.entries), (true, 8), "{report:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restore_rejects_a_folder_with_journal_records() {
    bounded(async {
        let db = Database::<Sqlite>::fresh().await.unwrap();
        let id = session(&db.store, "agent:a", "k").await;
        let entry = audit(AuditPhase::Started, CallId::new(), "agent:a", "todo");
        db.store.append(Records { audit: vec![entry], ..events(id, [event("agent:a", 0)]) }).await.unwrap();
        let crashed_copy = crashed(&db.backend);
        for file in ["plexus.db", "plexus.db-wal"] {
            std::fs::remove_file(crashed_copy.dir.path().join(file)).unwrap();
        }
        let supervisor = Supervisor::new();
        let archive: &[u8] = &[];
        let refused =
            restore(&crashed_copy.options("main"), archive, &supervisor, &mut |_, _| {}).await.unwrap_err();
        assert!(refused.to_string().contains("did not stop"), "{refused}");
        supervisor.shutdown(LIMIT).await;
    })
    .await;
}
