//! Rules for reading the audit log: calls, filters, pages, the published head.

use plexus_proto::CallId;
use plexus_proto::api::AuditPhase;
use plexus_store::{AuditFilter, NewAudit, Records};

use crate::backend::{Backend, Database, at, audit, audited};

async fn append<B: Backend>(db: &Database<B>, audit: Vec<NewAudit>) {
    db.store.append(Records { audit, events: vec![] }).await.unwrap();
}

pub(crate) async fn both_entries_of_a_call_are_listed_as_one<B: Backend>(db: Database<B>) {
    let (call_id, running) = (CallId::new(), CallId::new());
    let session_id = Some(db.session("agent:a", "k").await);
    let started = audit(AuditPhase::Started, call_id, "agent:a", "todo");
    let finished = NewAudit {
        at: at(9),
        outcome: "not_found".into(),
        detail: r#"{"code":"not_found"}"#.to_owned(),
        ..audit(AuditPhase::Finished, call_id, "agent:a", "todo")
    };
    append(&db, vec![NewAudit { session_id, ..started }]).await;
    append(&db, vec![audit(AuditPhase::Started, running, "agent:b", "todo")]).await;
    append(&db, vec![finished]).await;
    let mut reader = db.store.read().await.unwrap();
    let calls = reader.audit_calls("main", &AuditFilter::default(), 10).await.unwrap();
    assert_eq!(calls.iter().map(|call| call.call_id).collect::<Vec<_>>(), [running, call_id]);
    let call = &calls[1];
    assert_eq!((call.started_at, call.finished_at), (at(1), Some(at(9))));
    assert_eq!((call.outcome.as_str(), call.session_id), ("not_found", session_id));
    assert_eq!((&call.arguments["a"], &call.result["code"]), (&1.into(), &"not_found".into()));
    assert_eq!(call.entries, [1, 3]);
    assert_eq!((calls[0].outcome.as_str(), calls[0].entries.as_slice()), ("unfinished", &[2][..]));
    assert_eq!(reader.audit_call(call_id).await.unwrap().as_ref(), Some(call));
    assert_eq!(reader.audit_call(CallId::new()).await.unwrap(), None);
    assert_eq!(reader.audit_calls("another hub", &AuditFilter::default(), 10).await.unwrap(), []);
}

pub(crate) async fn audited_calls_are_filtered_and_paged<B: Backend>(db: Database<B>) {
    let session_id = Some(db.session("agent:a", "k").await);
    let mut ids = Vec::new();
    for (actor, tool, session_id) in [
        ("agent:a", "todo", session_id),
        ("agent:a", "scratchpad", None),
        ("agent:b", "todo", None),
        ("agent:a", "todo", None),
    ] {
        ids.push(CallId::new());
        let entries = audited(ids[ids.len() - 1], actor, tool);
        append(&db, entries.into_iter().map(|entry| NewAudit { session_id, ..entry }).collect()).await;
    }
    let mut reader = db.store.read().await.unwrap();
    let tool = Some("todo".to_owned());
    let actor = Some("agent:a".to_owned());
    let end_of = |index: usize| Some(ids[index].to_string().split_off(28));
    let none = AuditFilter::default;
    for (filter, expected) in [
        (none(), vec![3, 2, 1, 0]),
        (AuditFilter { tool: tool.clone(), ..none() }, vec![3, 2, 0]),
        (AuditFilter { actor: actor.clone(), ..none() }, vec![3, 1, 0]),
        (AuditFilter { actor, tool, ..none() }, vec![3, 0]),
        (AuditFilter { session_id, ..none() }, vec![0]),
        (AuditFilter { call_suffix: end_of(2), ..none() }, vec![2]),
        (AuditFilter { call_suffix: end_of(2), session_id, ..none() }, vec![]),
        (AuditFilter { call_suffix: Some("----".to_owned()), ..none() }, vec![]),
    ] {
        let calls = reader.audit_calls("main", &filter, 10).await.unwrap();
        let expected: Vec<_> = expected.into_iter().map(|index: usize| ids[index]).collect();
        assert_eq!(calls.iter().map(|call| call.call_id).collect::<Vec<_>>(), expected, "{filter:?}");
    }
    let page = reader.audit_calls("main", &none(), 2).await.unwrap();
    let before = page.last().map(|call| call.entries[0]);
    let next = reader.audit_calls("main", &AuditFilter { before, ..none() }, 2).await.unwrap();
    assert_eq!(next.iter().map(|call| call.call_id).collect::<Vec<_>>(), [ids[1], ids[0]]);
    drop(reader);
    let call_id = CallId::new();
    let entries = audited(call_id, "agent:a", "todo").into_iter();
    append(&db, entries.map(|entry| NewAudit { outcome: "denied".into(), ..entry }).collect()).await;
    let failed = AuditFilter { failed: true, ..none() };
    let calls = db.store.read().await.unwrap().audit_calls("main", &failed, 10).await.unwrap();
    assert_eq!(calls.iter().map(|call| call.call_id).collect::<Vec<_>>(), [call_id]);
}

pub(crate) async fn audit_numbers_are_gapless_and_published_after_commit<B: Backend>(db: Database<B>) {
    let mut heads = db.store.audit_heads();
    assert_eq!(*heads.borrow_and_update(), None);
    for size in [1, 31, 32, 33, 70, 256, 257, 600] {
        let entries = (0..size).map(|_| audit(AuditPhase::Started, CallId::new(), "agent:a", "todo"));
        append(&db, entries.collect()).await;
        db.store.settle().await.unwrap();
        // The head is published after the commit, and the published entry can be read.
        assert!(heads.has_changed().unwrap());
        let head = heads.borrow_and_update().clone().unwrap();
        let report = db.store.verify_audit(Ok(Some(head.clone())), &plexus_store::NoWitness).await.unwrap();
        assert_eq!((report.ok, report.entries), (true, head.n), "{report:?}");
        assert_eq!(report.head, Some(head));
    }
    assert_eq!(heads.borrow().as_ref().map(|head| head.n), Some(1_280));
}
