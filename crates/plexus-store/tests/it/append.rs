//! Rules for appending on behalf of a client.

use plexus_proto::{NewEvent, SessionId};
use plexus_store::{AppendError, Appended, Records, Store, StoreError};
use tokio::task::JoinSet;

use crate::backend::{Backend, Database, event, events, external, numbers, seqs};

async fn append(
    store: &Store,
    session: SessionId,
    expected: Option<i64>,
    events: Vec<NewEvent>,
) -> Result<Appended, AppendError> {
    store
        .transact(
            move |conn| Box::pin(async move { conn.append_events(session, expected, events).await }),
            |_| Records::default(),
        )
        .await
        .unwrap()
}

pub(crate) async fn appended_events_are_returned_as_stored<B: Backend>(db: Database<B>) {
    let session = db.session("agent:a", "named:a").await;
    db.store.append(events(session, [event("agent:a", 0)])).await.unwrap();
    let appended = append(&db.store, session, Some(1), (1..=40).map(|n| event("agent:a", n)).collect());
    let appended = appended.await.unwrap();
    assert_eq!(appended.last_seq, 41);
    let stored = db.events(session).await;
    assert_eq!(stored[1..], appended.events);
    assert_eq!(seqs(&stored), (1..=41).collect::<Vec<_>>());
    assert_eq!(numbers(&stored), (0..=40).collect::<Vec<_>>());
    let mut positions: Vec<i64> = stored.iter().map(|event| event.pos).collect();
    positions.dedup();
    assert!(positions.is_sorted() && positions.len() == 41, "{positions:?}");
}

pub(crate) async fn append_with_outdated_seq_changes_nothing<B: Backend>(db: Database<B>) {
    let session = db.session("agent:a", "named:a").await;
    append(&db.store, session, Some(0), vec![event("agent:a", 1)]).await.unwrap();
    let before = db.events(session).await;
    for expected in [0, 2] {
        let refused = append(&db.store, session, Some(expected), vec![event("agent:a", 2)]).await;
        assert!(matches!(refused, Err(AppendError::Conflict { last_seq: 1 })), "{refused:?}");
    }
    assert_eq!(db.events(session).await, before);
    assert_eq!(append(&db.store, session, None, vec![event("agent:a", 2)]).await.unwrap().last_seq, 2);
}

pub(crate) async fn one_of_concurrent_conditional_appends_succeeds<B: Backend>(db: Database<B>) {
    let session = db.session("agent:a", "named:a").await;
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let store = db.store.clone();
        callers.spawn(async move {
            // Records of calls are interleaved, in the same transactions.
            if caller % 4 == 0 {
                store.append(events(session, [event("agent:call", caller)])).await.unwrap();
            }
            (caller, append(&store, session, Some(0), vec![event("agent:a", caller)]).await)
        });
    }
    let outcomes = callers.join_all().await;
    let won: Vec<_> = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()).collect();
    assert!(won.len() <= 1, "{won:?}");
    let stored = db.events(session).await;
    assert_eq!(seqs(&stored), (1..=i64::try_from(8 + won.len()).unwrap()).collect::<Vec<_>>());
    // A client whose append succeeded got the number that it expected.
    assert!(won.iter().all(|appended| appended.events[0] == stored[0] && stored[0].seq == 1), "{won:?}");
}

pub(crate) async fn known_external_id_returns_the_stored_event<B: Backend>(db: Database<B>) {
    let session = db.session("agent:a", "named:a").await;
    let request = || vec![external("agent:a", 1, "x"), external("agent:a", 2, "y")];
    let first = append(&db.store, session, Some(0), request()).await.unwrap();
    // A repeated request after a lost answer: the condition held when it was executed.
    assert_eq!(append(&db.store, session, Some(0), request()).await.unwrap(), first);
    let mixed = vec![external("agent:b", 9, "y"), external("agent:a", 3, "z"), external("agent:a", 4, "z")];
    let refused = append(&db.store, session, Some(0), mixed.clone()).await;
    assert!(matches!(refused, Err(AppendError::Conflict { last_seq: 2 })), "{refused:?}");
    let second = append(&db.store, session, Some(2), mixed).await.unwrap();
    assert_eq!(seqs(&second.events), [2, 3, 3]);
    assert_eq!(second.last_seq, 3);
    assert_eq!(numbers(&db.events(session).await), [1, 2, 3]);
}

pub(crate) async fn append_to_unknown_session_fails<B: Backend>(db: Database<B>) {
    let unknown = SessionId::new();
    let refused = append(&db.store, unknown, None, vec![event("agent:a", 1)]).await;
    assert!(
        matches!(&refused, Err(AppendError::Store(StoreError::NoSuchSession(id))) if *id == unknown),
        "{refused:?}"
    );
    assert_eq!(db.events(unknown).await, []);
}
