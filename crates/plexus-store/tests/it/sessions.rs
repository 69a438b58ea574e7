//! Rules of sessions.

use plexus_proto::SessionId;
use plexus_store::{SessionFilter, TodoStatus};
use tokio::task::JoinSet;

use crate::backend::{Backend, Database, at, event, events};

pub(crate) async fn owner_and_key_identify_one_session<B: Backend>(db: Database<B>) {
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let store = db.store.clone();
        callers.spawn(async move {
            let client = (caller % 2 == 0).then(|| "codex".to_owned());
            store
                .write(move |conn| {
                    Box::pin(async move {
                        conn.ensure_session("agent:a", "codex:1", client.as_deref(), at(caller)).await
                    })
                })
                .await
                .unwrap()
        });
    }
    let mut ids: Vec<SessionId> = callers.join_all().await;
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let mut reader = db.store.read().await.unwrap();
    let found = reader.session_by_key("agent:a", "codex:1").await.unwrap().unwrap();
    assert_eq!((found.id, found.last_seq), (ids[0], 0));
    // A client name reported later is stored; a missing one does not erase it.
    assert_eq!(found.client.as_deref(), Some("codex"));
    assert_eq!(reader.sessions(&SessionFilter::default(), 10).await.unwrap(), [found]);
}

pub(crate) async fn keys_are_scoped_to_their_owner<B: Backend>(db: Database<B>) {
    let a = db.session("agent:a", "codex:1").await;
    let b = db.session("agent:b", "codex:1").await;
    assert_ne!(a, b);
    db.store.append(events(a, [event("agent:a", 0)])).await.unwrap();
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.session_by_key("agent:a", "codex:1").await.unwrap().unwrap().last_seq, 1);
    assert_eq!(reader.session_by_key("agent:b", "codex:1").await.unwrap().unwrap().last_seq, 0);
    assert_eq!(reader.session_by_key("agent:c", "codex:1").await.unwrap(), None);
    assert_eq!(reader.session(b).await.unwrap().unwrap().owner, "agent:b");
    assert_eq!(reader.session(SessionId::new()).await.unwrap(), None);
}

pub(crate) async fn lists_are_newest_first_and_paged<B: Backend>(db: Database<B>) {
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(db.session("agent:a", &format!("codex:{number}")).await);
    }
    let other = db.session("agent:b", "codex:0").await;
    made.reverse();
    let mut reader = db.store.read().await.unwrap();
    let mut listed = Vec::new();
    loop {
        let filter = SessionFilter {
            owner: Some("agent:a".to_owned()),
            before: listed.last().copied(),
            ..SessionFilter::default()
        };
        let page = reader.sessions(&filter, 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 2);
        listed.extend(page.iter().map(|session| session.id));
    }
    assert_eq!(listed, made);
    let all: Vec<_> =
        reader.sessions(&SessionFilter::default(), 10).await.unwrap().iter().map(|s| s.id).collect();
    assert_eq!(all.len(), 6);
    assert_eq!(all[0], other);
}

pub(crate) async fn lists_respect_every_filter<B: Backend>(db: Database<B>) {
    let write = |owner: &'static str, key: &'static str, client: &'static str, time: i64| {
        let store = db.store.clone();
        async move {
            let open = store.write(move |conn| {
                Box::pin(async move { conn.open_session(owner, key, Some(client), at(time)).await })
            });
            open.await.unwrap().0.id
        }
    };
    let a = write("agent:a", "codex:100%", "codex", 1).await;
    let b = write("agent:a", "named:plan", "cli", 2).await;
    let c = write("agent:b", "named:plans", "cli", 3).await;
    let mut reader = db.store.read().await.unwrap();
    let none = SessionFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        (none(), vec![c, b, a]),
        (SessionFilter { owner: text("agent:a"), ..none() }, vec![b, a]),
        (SessionFilter { key_prefix: text("named:plan"), ..none() }, vec![c, b]),
        // A prefix, not a pattern.
        (SessionFilter { key_prefix: text("codex:100%"), ..none() }, vec![a]),
        (SessionFilter { key_prefix: text("%"), ..none() }, vec![]),
        (SessionFilter { client: text("codex"), ..none() }, vec![a]),
        (SessionFilter { updated_after: Some(at(2)), ..none() }, vec![c]),
        (SessionFilter { owner: text("agent:a"), key_prefix: text("named:"), ..none() }, vec![b]),
    ];
    let end = c.to_string()[24..].to_owned();
    let cases = cases.into_iter().chain([
        (SessionFilter { id_suffix: Some(end), ..none() }, vec![c]),
        (SessionFilter { id_suffix: text("----"), ..none() }, vec![]),
    ]);
    for (filter, expected) in cases {
        let found: Vec<_> = reader.sessions(&filter, 10).await.unwrap().iter().map(|s| s.id).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub(crate) async fn open_reports_whether_the_session_was_created<B: Backend>(db: Database<B>) {
    let open = || {
        let work = db.store.write(|conn| {
            Box::pin(async move { conn.open_session("agent:a", "named:x", None, at(1)).await })
        });
        async { work.await.unwrap() }
    };
    let (first, made) = open().await;
    assert!(made);
    assert_eq!((first.owner.as_str(), first.key.as_str(), first.last_seq), ("agent:a", "named:x", 0));
    assert_eq!(open().await, (first, false));
}

pub(crate) async fn sessions_have_a_folder_and_a_title<B: Backend>(db: Database<B>) {
    let open = async |key: &'static str| {
        let work = db
            .store
            .write(move |conn| Box::pin(async move { conn.open_session("agent:a", key, None, at(1)).await }));
        work.await.unwrap().0
    };
    let (named, codex) = (open("named:plan").await, open("codex:1").await);
    assert_eq!((named.title.as_deref(), named.folder), (Some("plan"), None));
    assert_eq!(codex.title, None);
    let id = codex.id;
    let write = db.store.write(move |conn| {
        Box::pin(async move {
            conn.note_session_folder(id, "/old").await?;
            conn.note_session_folder(id, "/srv/code").await?;
            conn.add_todo(id, "rewrite the importer", TodoStatus::Pending, at(2)).await?;
            conn.add_todo(id, "test it", TodoStatus::Pending, at(3)).await
        })
    });
    write.await.unwrap();
    let session = db.store.read().await.unwrap().session(id).await.unwrap().unwrap();
    assert_eq!(session.folder.as_deref(), Some("/srv/code"));
    assert_eq!(session.title.as_deref(), Some("rewrite the importer"));
}
