//! Rules for a session's log: gapless numbers, no overwrites, no duplicates.

use std::collections::HashMap;

use futures_util::FutureExt;
use plexus_proto::{CallId, EventKind, NewEvent, SessionId};
use plexus_store::{Records, StoreError};
use tokio::task::JoinSet;

use crate::backend::{Backend, Database, Seeded, at, audit, audited, event, events, external, numbers, seqs};

pub(crate) async fn event_numbers_are_gapless_from_one<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    // Sizes around the limits of a single statement.
    let mut sent = 0;
    for size in [1, 2, 3, 31, 32, 33, 100, 255, 256, 257, 600] {
        db.store.append(events(id, (sent..sent + size).map(|n| event("agent:a", n)))).await.unwrap();
        sent += size;
    }
    let stored = db.events(id).await;
    assert_eq!(seqs(&stored), (1..=sent as i64).collect::<Vec<_>>());
    assert_eq!(numbers(&stored), (0..sent as u64).collect::<Vec<_>>(), "not in the order they were appended");
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(seqs(&reader.events(id, 5, 3).await.unwrap()), [6, 7, 8]);
    assert_eq!(reader.events(id, sent as i64, 3).await.unwrap(), []);
    assert_eq!(reader.session(id).await.unwrap().unwrap().last_seq, sent as i64);
}

pub(crate) async fn interleaved_writers_keep_events_complete_and_separate<B: Backend>(db: Database<B>) {
    const SESSIONS: usize = 64;
    const WRITERS: usize = 8;
    const EVENTS: usize = 60;
    for seed in [1, 20_261_115, 0xDEAD_BEEF] {
        let mut owners: HashMap<SessionId, String> = HashMap::new();
        for number in 0..SESSIONS {
            let owner = format!("agent:{seed}-{number}");
            owners.insert(db.session(&owner, "one key for all").await, owner);
        }
        let mut sessions: Vec<_> = owners.keys().copied().collect();
        sessions.sort();
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (store, sessions, owners) = (db.store.clone(), sessions.clone(), owners.clone());
            writers.spawn(async move {
                let mut random = Seeded(seed + writer as u64);
                let mut sent: Vec<(SessionId, u64)> = Vec::new();
                while sent.len() < EVENTS {
                    let mut records = Records::default();
                    for _ in 0..=random.below(5) {
                        let id = sessions[random.below(SESSIONS)];
                        let number = writer * 1_000_000 + sent.len();
                        sent.push((id, number as u64));
                        records.events.push((id, event(&owners[&id], number)));
                    }
                    match random.below(3) {
                        0 => store.append(records).await.unwrap(),
                        1 => drop(store.append_soon(records).await.unwrap()),
                        _ => store
                            .transact(|_| Box::pin(async { Err::<(), _>(()) }), move |_| records)
                            .await
                            .unwrap()
                            .unwrap_err(),
                    }
                }
                store.append(Records::default()).await.unwrap();
                (writer, sent)
            });
        }
        let sent = writers.join_all().await;
        for (id, owner) in &owners {
            let stored = db.events(*id).await;
            assert_eq!(seqs(&stored), (1..=stored.len() as i64).collect::<Vec<_>>(), "a gap, seed {seed}");
            assert!(
                stored.iter().all(|event| event.actor == *owner),
                "an event of another session, seed {seed}"
            );
            let numbers = numbers(&stored);
            for (writer, sent) in &sent {
                let of_writer = |number: &u64| *number / 1_000_000 == *writer as u64;
                let expected: Vec<u64> = sent.iter().filter(|(to, _)| to == id).map(|(_, n)| *n).collect();
                let found: Vec<u64> = numbers.iter().copied().filter(of_writer).collect();
                assert_eq!(found, expected, "lost, doubled or out of order, seed {seed}");
            }
        }
    }
}

pub(crate) async fn repeated_external_id_is_stored_once<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let other = db.session("agent:b", "k").await;
    db.store.append(events(id, [external("live", 0, "x"), event("live", 1)])).await.unwrap();
    db.store.append(events(id, [external("transcript", 2, "x"), event("live", 3)])).await.unwrap();
    let db = db.reopened().await;
    db.store.append(events(id, [external("again", 4, "x"), external("live", 5, "y")])).await.unwrap();
    let stored = db.events(id).await;
    assert_eq!(numbers(&stored), [0, 1, 3, 5]);
    assert_eq!(seqs(&stored), [1, 2, 3, 4]);
    assert_eq!((stored[0].external_id.as_deref(), stored[0].actor.as_str()), (Some("x"), "live"));
    // External ids are scoped to a session.
    db.store.append(events(other, [external("agent:b", 6, "x")])).await.unwrap();
    assert_eq!(numbers(&db.events(other).await), [6]);
}

pub(crate) async fn external_id_twice_in_a_batch_is_stored_once<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let twice = [external("a", 0, "x"), event("a", 1), external("a", 2, "x"), event("a", 3)];
    db.store.append(events(id, twice)).await.unwrap();
    assert_eq!(numbers(&db.events(id).await), [0, 1, 3]);
    // Two requests that share a transaction.
    let gate = crate::writer::Gate::close(&db.store).await;
    let first = db.store.append(events(id, [external("a", 4, "y")]));
    let second = db.store.append(events(id, [external("a", 5, "y"), event("a", 6)]));
    // Acknowledged before the writer receives them.
    first.await.unwrap();
    second.await.unwrap();
    gate.open().await;
    let stored = db.events(id).await;
    assert_eq!(numbers(&stored), [0, 1, 3, 4, 6]);
    assert_eq!(seqs(&stored), [1, 2, 3, 4, 5]);
}

pub(crate) async fn unknown_session_fails_only_its_own_caller<B: Backend>(db: Database<B>) {
    let (id, unknown) = (db.session("agent:a", "k").await, SessionId::new());
    let gate = crate::writer::Gate::close(&db.store).await;
    let mut before = Box::pin(db.store.append(events(id, [event("a", 0)])));
    let call_id = CallId::new();
    let mut records = events(unknown, [event("a", 1)]);
    records.audit.push(audit(plexus_proto::api::AuditPhase::Started, call_id, "agent:a", "todo"));
    let mut lost = Box::pin(db.store.append(records));
    let mut after = Box::pin(db.store.append(events(id, [event("a", 2)])));
    for request in [&mut before, &mut lost, &mut after] {
        assert!(request.now_or_never().is_none());
    }
    gate.open().await;
    before.await.unwrap();
    let error = lost.await.unwrap_err();
    assert!(matches!(&error, StoreError::NoSuchSession(named) if *named == unknown), "{error:?}");
    assert!(!error.is_retryable());
    after.await.unwrap();
    let stored = db.events(id).await;
    assert_eq!((numbers(&stored), seqs(&stored)), (vec![0, 2], vec![1, 2]));
    assert_eq!(db.events(unknown).await, []);
    // Audit entries are written even if the event is rejected.
    assert!(db.store.read().await.unwrap().audit_call(call_id).await.unwrap().is_some());
}

pub(crate) async fn unknown_event_kind_is_preserved<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let foreign = NewEvent {
        at: at(7),
        kind: EventKind::Other("from_the_future".to_owned()),
        actor: "agent:a".to_owned(),
        payload: r#"{"z":1,"a":[null,"ü\u0000"],"deep":{"x":1.5}}"#.to_owned(),
        external_id: None,
    };
    db.store.append(events(id, [foreign.clone()])).await.unwrap();
    let stored = db.events(id).await.remove(0);
    assert_eq!((stored.kind, stored.at, stored.session_id), (foreign.kind, foreign.at, id));
    assert_eq!(stored.payload, serde_json::from_str::<serde_json::Value>(&foreign.payload).unwrap());
    let session = db.store.read().await.unwrap().session(id).await.unwrap().unwrap();
    assert_eq!(session.updated_at, at(7));
}

pub(crate) async fn events_of_all_sessions_have_one_order_and_an_owner<B: Backend>(db: Database<B>) {
    assert_eq!(db.store.read().await.unwrap().newest_event().await.unwrap(), 0);
    let (ann, bob) = (db.session("agent:ann", "k").await, db.session("agent:bob", "k").await);
    for number in 0..40 {
        let id = if number % 3 == 0 { bob } else { ann };
        db.store.append(events(id, [event("agent:x", number)])).await.unwrap();
    }
    let mut reader = db.store.read().await.unwrap();
    let all = reader.events_after(0, 100).await.unwrap();
    assert_eq!(all.iter().map(|event| event.pos).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    assert!(
        all.iter()
            .all(|event| event.owner == if event.session_id == bob { "agent:bob" } else { "agent:ann" })
    );
    assert_eq!(reader.events_after(37, 2).await.unwrap(), all[37..39]);
    assert_eq!(reader.events_after(40, 2).await.unwrap(), []);
    assert_eq!(reader.newest_event().await.unwrap(), 40);
    let of_bob: Vec<_> = all.iter().filter(|event| event.session_id == bob).cloned().collect();
    assert_eq!(reader.session_events_after(bob, 0, 100).await.unwrap(), of_bob);
    assert_eq!(reader.session_events_after(bob, 3, 2).await.unwrap(), of_bob[3..5]);
    // The same event as in the session's log.
    let logged = reader.events(bob, 0, 1).await.unwrap().remove(0);
    let payload: serde_json::Value = serde_json::from_str(&of_bob[0].payload).unwrap();
    assert_eq!((logged.pos, logged.payload, logged.actor), (1, payload, of_bob[0].actor.clone()));
}

pub(crate) async fn only_commits_with_events_send_a_hint<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "k").await;
    let mut hints = db.store.event_hints();
    let records = Records { audit: audited(CallId::new(), "agent:a", "todo"), events: vec![] };
    db.store.append(records).await.unwrap();
    db.store.settle().await.unwrap();
    assert!(!hints.has_changed().unwrap());
    db.store.append(events(id, [event("agent:a", 1)])).await.unwrap();
    hints.changed().await.unwrap();
    assert_eq!(db.events(id).await.len(), 1);
}
