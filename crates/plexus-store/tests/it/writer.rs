//! Rules for the group-commit writer.

use std::time::Duration;

use futures_util::FutureExt;
use plexus_proto::api::AuditPhase;
use plexus_proto::{CallId, SessionId};
use plexus_store::{Records, SessionFilter, Store, StoreError, TodoStatus};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::backend::{Backend, Database, at, audit, audited, event, events, numbers, seqs};

/// Blocks the writer, so that requests submitted in the meantime share the next transaction.
pub(crate) struct Gate {
    release: oneshot::Sender<()>,
    held: JoinSet<()>,
}

impl Gate {
    /// Returns when the writer is blocked.
    pub(crate) async fn close(store: &Store) -> Self {
        let (release, released) = oneshot::channel::<()>();
        let (entered, inside) = oneshot::channel();
        let (mut held, store) = (JoinSet::new(), store.clone());
        held.spawn(async move {
            let hold = store.write(move |_| {
                Box::pin(async move {
                    entered.send(()).unwrap();
                    released.await.unwrap();
                    Ok(())
                })
            });
            hold.await.unwrap();
        });
        inside.await.unwrap();
        Self { release, held }
    }

    pub(crate) async fn open(self) {
        self.release.send(()).unwrap();
        self.held.join_all().await;
    }
}

/// Adds a to-do and returns the given outcome.
async fn add_then<E: Send + 'static>(
    store: Store,
    session: SessionId,
    text: &'static str,
    end: Result<(), E>,
    records: Records,
) -> Result<Result<(), E>, StoreError> {
    store
        .transact(
            move |conn| {
                Box::pin(async move {
                    conn.add_todo(session, text, TodoStatus::Pending, at(0)).await.unwrap();
                    end
                })
            },
            move |_| records,
        )
        .await
}

async fn todos(store: &Store, session: SessionId) -> Vec<String> {
    let todos = store.read().await.unwrap().todos(session).await.unwrap();
    todos.into_iter().map(|todo| todo.text).collect()
}

pub(crate) async fn failed_unit_is_rolled_back_and_its_records_are_kept<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let call_id = CallId::new();
    let outcome = db
        .store
        .transact(
            move |conn| {
                Box::pin(async move {
                    conn.add_todo(id, "undone", TodoStatus::Done, at(0)).await.unwrap();
                    Err::<(), _>("no")
                })
            },
            move |outcome| {
                assert_eq!(*outcome, Err("no"), "the record is derived from the outcome");
                let mut records = events(id, [event("agent:a", 0)]);
                records.audit = audited(call_id, "agent:a", "todo");
                records
            },
        )
        .await
        .unwrap();
    assert_eq!(outcome, Err("no"));
    assert_eq!(todos(&db.store, id).await, [""; 0]);
    assert_eq!(numbers(&db.events(id).await), [0]);
    let call = db.store.read().await.unwrap().audit_call(call_id).await.unwrap().unwrap();
    assert_eq!(call.entries, [1, 2]);
}

pub(crate) async fn failed_unit_does_not_affect_others_in_its_batch<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let gate = Gate::close(&db.store).await;
    let mut units = Vec::new();
    for (number, (text, end)) in
        [("one", Ok(())), ("two", Err("no")), ("three", Ok(())), ("four", Err("no")), ("five", Ok(()))]
            .into_iter()
            .enumerate()
    {
        let records = events(id, [event("agent:a", number)]);
        let mut unit = Box::pin(add_then(db.store.clone(), id, text, end, records));
        assert!((&mut unit).now_or_never().is_none());
        units.push((end, unit));
    }
    gate.open().await;
    for (end, unit) in units {
        assert_eq!(unit.await.unwrap(), end);
    }
    assert_eq!(todos(&db.store, id).await, ["one", "three", "five"]);
    let stored = db.events(id).await;
    assert_eq!((numbers(&stored), seqs(&stored)), (vec![0, 1, 2, 3, 4], vec![1, 2, 3, 4, 5]));
}

pub(crate) async fn database_error_in_a_unit_does_not_affect_others<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let gate = Gate::close(&db.store).await;
    let add = |session: SessionId, text: &'static str| {
        let store = db.store.clone();
        Box::pin(async move {
            let work = store.write(move |conn| {
                Box::pin(async move { conn.write_section(session, text, "content", at(0)).await })
            });
            work.await
        })
    };
    let mut good = add(id, "good");
    // No such session: violates a constraint of the database.
    let mut bad = add(SessionId::new(), "bad");
    let mut later = add(id, "later");
    for unit in [&mut good, &mut bad, &mut later] {
        assert!(unit.now_or_never().is_none());
    }
    gate.open().await;
    good.await.unwrap();
    assert!(matches!(bad.await, Err(StoreError::Query { .. })));
    later.await.unwrap();
    let sections = db.store.read().await.unwrap().sections(id).await.unwrap();
    assert_eq!(sections.iter().map(|info| info.section.as_str()).collect::<Vec<_>>(), ["good", "later"]);
}

pub(crate) async fn panicking_unit_fails_alone<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let panicked = db
        .store
        .write(move |conn| {
            Box::pin(async move {
                conn.add_todo(id, "undone", TodoStatus::Done, at(0)).await?;
                panic!("a unit of work that panics on purpose")
            })
        })
        .await;
    let panicked: Result<(), StoreError> = panicked;
    assert!(panicked.is_err());
    db.store.append(events(id, [event("agent:a", 0)])).await.expect("the writer must outlive a panic");
    assert_eq!(todos(&db.store, id).await, [""; 0]);
}

pub(crate) async fn accepted_work_completes_without_its_caller<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let gate = Gate::close(&db.store).await;
    let records = events(id, [event("agent:a", 0)]);
    let mut unit = Box::pin(add_then(db.store.clone(), id, "kept", Ok::<_, ()>(()), records));
    assert!((&mut unit).now_or_never().is_none());
    drop(unit);
    gate.open().await;
    // Submitted after it.
    db.store.append(Records::default()).await.unwrap();
    assert_eq!(todos(&db.store, id).await, ["kept"]);
    assert_eq!(numbers(&db.events(id).await), [0]);
}

pub(crate) async fn append_soon_precedes_later_requests<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    for round in 0..20 {
        let call_id = CallId::new();
        let mut started = events(id, [event("agent:a", 2 * round)]);
        started.audit.push(audit(AuditPhase::Started, call_id, "agent:a", "todo"));
        db.store.append_soon(started).await.unwrap();
        let mut finished = events(id, [event("agent:a", 2 * round + 1)]);
        finished.audit.push(audit(AuditPhase::Finished, call_id, "agent:a", "todo"));
        db.store.append(finished).await.unwrap();
        // Once the later one is acknowledged, both are stored, in order.
        assert_eq!(numbers(&db.events(id).await), (0..2 * round as u64 + 2).collect::<Vec<_>>());
        let call = db.store.read().await.unwrap().audit_call(call_id).await.unwrap().unwrap();
        let n = 2 * round as i64 + 1;
        assert_eq!(call.entries, [n, n + 1]);
    }
}

pub(crate) async fn append_soon_is_committed_without_a_waiter<B: Backend>(db: Database<B>) {
    let mut heads = db.store.audit_heads();
    let call_id = CallId::new();
    let audit = vec![audit(AuditPhase::Started, call_id, "agent:a", "todo")];
    db.store.append_soon(Records { audit, events: vec![] }).await.unwrap();
    heads.wait_for(|head| head.as_ref().is_some_and(|head| head.n == 1)).await.unwrap();
    let call = db.store.read().await.unwrap().audit_call(call_id).await.unwrap().unwrap();
    assert_eq!(call.outcome, "unfinished");
}

pub(crate) async fn shutdown_finishes_accepted_requests_and_rejects_others<B: Backend>(db: Database<B>) {
    const ACCEPTED: usize = 600;
    let id = db.session("agent:a", "k").await;
    let gate = Gate::close(&db.store).await;
    let mut accepted = Vec::new();
    for number in 0..ACCEPTED {
        // Without tokio's cooperative budget, which would be used up before all are submitted.
        let append = db.store.append(events(id, [event("agent:a", number)]));
        let mut append = Box::pin(tokio::task::unconstrained(append));
        assert!((&mut append).now_or_never().is_none());
        accepted.push(append);
    }
    // Also waits for the commit, since the session is not known yet.
    let soon = db.store.append_soon(events(id, [event("agent:a", ACCEPTED)]));
    let mut soon = Box::pin(tokio::task::unconstrained(soon));
    assert!((&mut soon).now_or_never().is_none());
    let ending = async {
        db.stopping().await;
        gate.open().await;
    };
    let (drained, ()) = tokio::join!(db.supervisor.shutdown(Duration::from_secs(30)), ending);
    assert!(drained.aborted.is_empty(), "{drained:?}");
    for append in accepted {
        append.await.expect("it was accepted before the shutdown");
    }
    soon.await.expect("it was accepted before the shutdown");
    let late = events(id, [event("agent:a", 9999)]);
    assert!(matches!(db.store.append(late).await, Err(StoreError::Closed)));
    let late = events(id, [event("agent:a", 9999)]);
    assert!(matches!(db.store.append_soon(late).await, Err(StoreError::Closed)));
    let late = add_then(db.store.clone(), id, "late", Ok::<_, ()>(()), Records::default()).await;
    assert!(matches!(late, Err(StoreError::Closed)));
    assert!(StoreError::Closed.is_retryable());
    let db = db.reopened().await;
    assert_eq!(numbers(&db.events(id).await), (0..=ACCEPTED as u64).collect::<Vec<_>>());
    assert_eq!(todos(&db.store, id).await, [""; 0]);
}

pub(crate) async fn readers_cannot_write<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let mut reader = db.store.read().await.unwrap();
    let refused = reader.add_todo(id, "past the writer", TodoStatus::Pending, at(0)).await;
    assert!(matches!(refused, Err(StoreError::Query { .. })), "{refused:?}");
    let refused = reader.ensure_session("agent:b", "k", None, at(0)).await;
    assert!(matches!(refused, Err(StoreError::Query { .. })), "{refused:?}");
    drop(reader);
    assert_eq!(todos(&db.store, id).await, [""; 0]);
    assert_eq!(
        db.store.read().await.unwrap().sessions(&SessionFilter::default(), 10).await.unwrap().len(),
        1
    );
}

pub(crate) async fn reopened_store_contains_everything<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let call_id = CallId::new();
    let mut records = events(id, [event("agent:a", 0), event("agent:a", 1)]);
    records.audit = audited(call_id, "agent:a", "todo");
    add_then(db.store.clone(), id, "kept", Ok::<_, ()>(()), records).await.unwrap().unwrap();
    let (stored, head) = (db.events(id).await, db.head().await);
    let call = db.store.read().await.unwrap().audit_call(call_id).await.unwrap();

    let db = db.reopened().await;
    assert_eq!(db.session("agent:a", "k").await, id);
    assert_eq!(db.events(id).await, stored);
    assert_eq!(todos(&db.store, id).await, ["kept"]);
    assert_eq!(db.head().await, head);
    assert_eq!(db.store.read().await.unwrap().audit_call(call_id).await.unwrap(), call);
    // Logs continue where they ended.
    let mut records = events(id, [event("agent:a", 2)]);
    records.audit = audited(CallId::new(), "agent:a", "todo");
    db.store.append(records).await.unwrap();
    assert_eq!(seqs(&db.events(id).await), [1, 2, 3]);
    let head = db.head().await;
    let report = db.store.verify_audit(Ok(head), &plexus_store::NoWitness).await.unwrap();
    assert!(report.ok && report.entries == 4, "{report:?}");
}
