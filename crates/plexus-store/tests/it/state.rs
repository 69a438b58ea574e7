//! Rules for idempotent results, to-dos, scratchpads, MCP sessions and tasks.

use plexus_proto::{CallId, SessionId};
use plexus_store::{
    IdempotencyRecord, McpSessionRecord, StoreError, TaskEnd, TaskRecord, TaskStatus, TodoRecord, TodoStatus,
};

use crate::backend::{Backend, Database, at};

fn record(subject: &str, key: &str, result: &str) -> IdempotencyRecord {
    IdempotencyRecord {
        subject: subject.to_owned(),
        key: key.to_owned(),
        request_hash: "hash".to_owned(),
        call_id: CallId::new(),
        session_id: SessionId::new(),
        result: result.to_owned(),
    }
}

async fn insert_result<B: Backend>(
    db: &Database<B>,
    record: &IdempotencyRecord,
    now: i64,
) -> Result<bool, StoreError> {
    let record = record.clone();
    db.store
        .write(move |conn| Box::pin(async move { conn.reserve_idempotency_key(&record, at(now)).await }))
        .await
}

pub(crate) async fn first_result_of_a_key_is_kept<B: Backend>(db: Database<B>) {
    let first = record("agent:a", "key", "one");
    assert!(insert_result(&db, &first, 0).await.unwrap());
    assert!(!insert_result(&db, &record("agent:a", "key", "two"), 1).await.unwrap());
    let foreign_record = record("agent:b", "key", "three");
    insert_result(&db, &foreign_record, 1).await.unwrap();
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.idempotent_result("agent:a", "key").await.unwrap(), Some(first));
    assert_eq!(reader.idempotent_result("agent:b", "key").await.unwrap(), Some(foreign_record));
    assert_eq!(reader.idempotent_result("agent:a", "other").await.unwrap(), None);
}

pub(crate) async fn only_old_results_are_purged<B: Backend>(db: Database<B>) {
    for (key, now) in [("a", 10), ("b", 20), ("c", 30)] {
        insert_result(&db, &record("agent:a", key, "r"), now).await.unwrap();
    }
    let purge = || db.store.write(|conn| Box::pin(conn.purge_idempotency_keys(at(20))));
    assert_eq!(purge().await.unwrap(), 1);
    assert_eq!(purge().await.unwrap(), 0);
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.idempotent_result("agent:a", "a").await.unwrap(), None);
    assert!(reader.idempotent_result("agent:a", "b").await.unwrap().is_some());
    assert!(reader.idempotent_result("agent:a", "c").await.unwrap().is_some());
}

async fn add<B: Backend>(db: &Database<B>, session: SessionId, text: &'static str) -> TodoRecord {
    db.store
        .write(move |conn| {
            Box::pin(async move { conn.add_todo(session, text, TodoStatus::Pending, at(0)).await })
        })
        .await
        .unwrap()
}

pub(crate) async fn todos_are_managed_per_session<B: Backend>(db: Database<B>) {
    let (mine, other) = (db.session("agent:a", "1").await, db.session("agent:a", "2").await);
    let ids = [add(&db, mine, "a").await.id, add(&db, mine, "b").await.id, add(&db, mine, "c").await.id];
    assert_eq!(ids, [1, 2, 3]);
    let of_other = add(&db, other, "other").await;
    assert_eq!(of_other.id, 1, "each session has its own numbering");

    let (changed, renamed, missing, removed, again, count) = db
        .store
        .write(move |conn| {
            Box::pin(async move {
                let status = Some(TodoStatus::InProgress);
                Ok((
                    conn.update_todo(mine, 1, None, status, at(5)).await?.unwrap(),
                    conn.update_todo(mine, 2, Some("B"), None, at(6)).await?.unwrap(),
                    conn.update_todo(mine, 9, Some("x"), None, at(7)).await?,
                    conn.remove_todo(mine, 3).await?,
                    conn.remove_todo(mine, 3).await?,
                    conn.todo_count(mine).await?,
                ))
            })
        })
        .await
        .unwrap();
    let todo =
        |id, text: &str, status, now| TodoRecord { id, text: text.to_owned(), status, updated_at: at(now) };
    assert_eq!(changed, todo(1, "a", TodoStatus::InProgress, 5));
    assert_eq!(renamed, todo(2, "B", TodoStatus::Pending, 6));
    assert_eq!((missing, removed, again, count), (None, true, false, 2));
    assert_eq!(db.store.read().await.unwrap().todos(mine).await.unwrap(), [changed, renamed]);

    let cleared = db.store.write(move |conn| Box::pin(conn.clear_todos(mine))).await.unwrap();
    assert_eq!(cleared, 2);
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.todos(mine).await.unwrap(), []);
    assert_eq!(reader.todos(other).await.unwrap(), [of_other]);
}

/// An agent that remembers "number 2" must not change a later item with that number.
pub(crate) async fn todo_numbers_are_never_reused<B: Backend>(db: Database<B>) {
    let id = db.session("agent:a", "1").await;
    add(&db, id, "a").await;
    let removed = add(&db, id, "b").await;
    assert!(db.store.write(move |conn| Box::pin(conn.remove_todo(id, removed.id))).await.unwrap());
    assert_eq!(add(&db, id, "c").await.id, 3);
}

pub(crate) async fn state_of_an_unknown_session_is_rejected<B: Backend>(db: Database<B>) {
    let nobody = SessionId::new();
    let added = db
        .store
        .write(move |conn| {
            Box::pin(async move { conn.add_todo(nobody, "x", TodoStatus::Pending, at(0)).await })
        })
        .await;
    assert!(added.is_err());
    let written = db
        .store
        .write(move |conn| Box::pin(async move { conn.write_section(nobody, "x", "y", at(0)).await }))
        .await;
    assert!(written.is_err());
}

pub(crate) async fn scratchpad_sections_are_managed_per_session<B: Backend>(db: Database<B>) {
    let (mine, other) = (db.session("agent:a", "1").await, db.session("agent:a", "2").await);
    db.store
        .write(move |conn| {
            Box::pin(async move {
                conn.write_section(mine, "notes", "first", at(1)).await?;
                conn.write_section(mine, "notes", "zweite für", at(2)).await?;
                conn.write_section(mine, "a", "", at(3)).await?;
                conn.write_section(other, "notes", "another's", at(4)).await
            })
        })
        .await
        .unwrap();
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.section(mine, "notes").await.unwrap().as_deref(), Some("zweite für"));
    assert_eq!(reader.section(mine, "a").await.unwrap().as_deref(), Some(""));
    assert_eq!(reader.section(mine, "b").await.unwrap(), None);
    let listed = reader.sections(mine).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|s| (s.section.as_str(), s.bytes, s.updated_at)).collect();
    assert_eq!(listed, [("a", 0, at(3)), ("notes", 11, at(2))], "sorted by name, sizes in bytes");
    drop(reader);
    let delete = || db.store.write(move |conn| Box::pin(conn.delete_section(mine, "notes")));
    assert!(delete().await.unwrap());
    assert!(!delete().await.unwrap());
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.section(other, "notes").await.unwrap().as_deref(), Some("another's"));
}

pub(crate) async fn mcp_sessions_are_stored_ended_and_purged<B: Backend>(db: Database<B>) {
    let record = |id: &str| McpSessionRecord {
        id: id.to_owned(),
        owner: "agent:a".to_owned(),
        version: "2025-06-18".to_owned(),
        client: "codex".to_owned(),
        capabilities: r#"{"roots":{}}"#.to_owned(),
        log_level: None,
    };
    for (id, now) in [("old", 10), ("ended", 20), ("new", 30)] {
        let record = record(id);
        db.store
            .write(move |conn| Box::pin(async move { conn.insert_mcp_session(&record, at(now)).await }))
            .await
            .unwrap();
    }
    db.store.write(|conn| Box::pin(conn.set_mcp_session_log_level("new", "warning"))).await.unwrap();
    let db = db.reopened().await;
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.mcp_session("old").await.unwrap(), Some(record("old")));
    let expected = McpSessionRecord { log_level: Some("warning".to_owned()), ..record("new") };
    assert_eq!(reader.mcp_session("new").await.unwrap(), Some(expected));
    drop(reader);
    let again = record("new");
    let again = db
        .store
        .write(move |conn| Box::pin(async move { conn.insert_mcp_session(&again, at(40)).await }))
        .await;
    assert!(again.is_err(), "ids are unique");
    db.store.write(|conn| Box::pin(conn.delete_mcp_session("ended"))).await.unwrap();
    assert_eq!(db.store.write(|conn| Box::pin(conn.purge_mcp_sessions(at(30)))).await.unwrap(), 1);
    let mut reader = db.store.read().await.unwrap();
    for (id, there) in [("old", false), ("ended", false), ("new", true)] {
        assert_eq!(reader.mcp_session(id).await.unwrap().is_some(), there, "{id}");
    }
}

pub(crate) async fn server_credentials_are_stored_replaced_and_deleted<B: Backend>(db: Database<B>) {
    for (server, field, sealed, now) in
        [("docs", "grant", "one", 1), ("docs", "client", "two", 2), ("mail", "grant", "three", 3)]
    {
        let stored = db.store.write(move |conn| {
            Box::pin(async move { conn.store_upstream_credential(server, field, sealed, at(now)).await })
        });
        stored.await.unwrap();
    }
    db.store
        .write(|conn| {
            Box::pin(async move { conn.store_upstream_credential("docs", "grant", "newer", at(4)).await })
        })
        .await
        .unwrap();
    let db = db.reopened().await;
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.upstream_credential("docs", "grant").await.unwrap().as_deref(), Some("newer"));
    assert_eq!(reader.upstream_credential("Docs", "grant").await.unwrap(), None, "names are exact");
    drop(reader);
    let forget = |server| db.store.write(move |conn| Box::pin(conn.delete_upstream_credentials(server)));
    assert_eq!(forget("docs").await.unwrap(), 2);
    assert_eq!(forget("docs").await.unwrap(), 0);
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.upstream_credential("docs", "grant").await.unwrap(), None);
    assert_eq!(reader.upstream_credential("mail", "grant").await.unwrap().as_deref(), Some("three"));
}

pub(crate) fn task(id: &str, owner: &str, now: i64) -> TaskRecord {
    TaskRecord {
        id: id.to_owned(),
        owner: owner.to_owned(),
        call_id: CallId::new(),
        tool: "mcp__a__b".to_owned(),
        created_at: at(now),
        updated_at: at(now),
        expires_at: at(now + 100),
        end: None,
    }
}

fn end(status: TaskStatus, payload: &str) -> TaskEnd {
    TaskEnd { status, message: Some("why".to_owned()), payload: Some(payload.to_owned()) }
}

async fn begin<B: Backend>(db: &Database<B>, hub: &'static str, task: &TaskRecord) -> bool {
    let task = task.clone();
    db.store.write(move |conn| Box::pin(async move { conn.insert_mcp_task(hub, &task).await })).await.unwrap()
}

async fn finish<B: Backend>(db: &Database<B>, id: &'static str, end: &TaskEnd, now: i64) -> bool {
    let end = end.clone();
    db.store
        .write(move |conn| Box::pin(async move { conn.end_mcp_task(id, &end, at(now)).await }))
        .await
        .unwrap()
}

pub(crate) async fn task_ends_once_and_belongs_to_its_owner_until_it_expires<B: Backend>(db: Database<B>) {
    let begun = task("one", "agent:a", 10);
    assert!(begin(&db, "main", &begun).await);
    let db = db.reopened().await;
    let done = end(TaskStatus::Completed, "{}");
    assert!(finish(&db, "one", &done, 20).await);
    assert!(!finish(&db, "one", &end(TaskStatus::Cancelled, "null"), 30).await, "the first outcome is kept");
    assert!(!finish(&db, "two", &done, 30).await);
    let ended = TaskRecord { updated_at: at(20), end: Some(done), ..begun };
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.mcp_task("agent:a", "one", at(109)).await.unwrap(), Some(ended));
    assert_eq!(reader.mcp_task("agent:b", "one", at(20)).await.unwrap(), None, "another's");
    assert_eq!(reader.mcp_task("agent:a", "one", at(110)).await.unwrap(), None, "expired");
    drop(reader);
    let purge = |now| db.store.write(move |conn| Box::pin(conn.purge_mcp_tasks(at(now))));
    assert_eq!(purge(109).await.unwrap(), 0);
    assert_eq!(purge(110).await.unwrap(), 1);
}

pub(crate) async fn only_interrupted_tasks_of_the_hub_are_ended<B: Backend>(db: Database<B>) {
    for (id, hub) in [("left", "main"), ("done", "main"), ("elsewhere", "other")] {
        assert!(begin(&db, hub, &task(id, "agent:a", 0)).await);
    }
    let done = end(TaskStatus::Completed, "{}");
    finish(&db, "done", &done, 5).await;
    let lost = end(TaskStatus::Failed, "{\"code\":-32603}");
    let found = lost.clone();
    let count = db
        .store
        .write(move |conn| Box::pin(async move { conn.end_lost_mcp_tasks("main", &found, at(9)).await }))
        .await
        .unwrap();
    assert_eq!(count, 1);
    let mut reader = db.store.read().await.unwrap();
    for (id, expected) in [("left", Some(lost)), ("done", Some(done)), ("elsewhere", None)] {
        assert_eq!(reader.mcp_task("agent:a", id, at(9)).await.unwrap().unwrap().end, expected, "{id}");
    }
}

pub(crate) async fn task_limit_evicts_only_ended_tasks<B: Backend>(db: Database<B>) {
    let insert = db.store.write(|conn| {
        Box::pin(async move {
            for number in 0..1_000 {
                assert!(conn.insert_mcp_task("main", &task(&number.to_string(), "agent:a", 0)).await?);
            }
            let refused = !conn.insert_mcp_task("main", &task("more", "agent:a", 0)).await?;
            let of_another = conn.insert_mcp_task("main", &task("other", "agent:b", 0)).await?;
            let done = end(TaskStatus::Completed, "{}");
            conn.end_mcp_task("7", &done, at(5)).await?;
            conn.end_mcp_task("8", &done, at(6)).await?;
            let inserted = conn.insert_mcp_task("main", &task("new", "agent:a", 7)).await?;
            Ok((refused, of_another, inserted))
        })
    });
    assert_eq!(insert.await.unwrap(), (true, true, true));
    let mut reader = db.store.read().await.unwrap();
    for (owner, id, there) in [
        ("agent:a", "7", false),
        ("agent:a", "8", true),
        ("agent:a", "new", true),
        ("agent:b", "other", true),
    ] {
        assert_eq!(reader.mcp_task(owner, id, at(9)).await.unwrap().is_some(), there, "{id}");
    }
}
