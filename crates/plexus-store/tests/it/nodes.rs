//! Rules for nodes, invitations, and the call records of hub and node.

use plexus_proto::node::HeldState;
use plexus_proto::{CallId, NodeId, SessionId, TokenId};
use plexus_store::{Enrolment, NodeCallRecord, NodeCallState, NodeInvite, NodeRecord};
use uuid::Uuid;

use crate::backend::{Backend, Database, at};

pub(crate) fn node(name: &str) -> NodeRecord {
    NodeRecord {
        id: NodeId::new(),
        name: name.to_owned(),
        labels: [("role".to_owned(), name.to_owned())].into(),
        enrolled_by: Enrolment::Code,
        created_by: "admin:local".to_owned(),
        created_at: at(1),
        draining: false,
        epoch: 0,
        about: None,
        last_seen_at: None,
    }
}

pub(crate) fn invite(name: &str, code_hash: &str, expires: i64) -> NodeInvite {
    NodeInvite {
        code_hash: code_hash.to_owned(),
        node_id: NodeId::new(),
        name: name.to_owned(),
        labels: [("role".to_owned(), "nas".to_owned())].into(),
        rejoin: false,
        token_id: TokenId::new(),
        created_by: "admin:local".to_owned(),
        created_at: at(1),
        expires_at: at(expires),
    }
}

pub(crate) fn call(node_id: NodeId, state: NodeCallState) -> NodeCallRecord {
    NodeCallRecord {
        call_id: CallId::new(),
        node_id,
        store_id: (state == NodeCallState::Sent).then(Uuid::new_v4),
        state,
        subject: "agent:a".to_owned(),
        profile: Some("work".to_owned()),
        token_id: TokenId::new(),
        session_id: SessionId::new(),
        tool: "terminal".to_owned(),
        arguments: r#"{"command":"ls"}"#.to_owned(),
        idempotency: (state == NodeCallState::Sent).then(|| ("key".to_owned(), "hash".to_owned())),
        via: "rest".to_owned(),
        deadline_at: at(100),
        queued_until: (state == NodeCallState::Queued).then(|| at(50)),
        created_at: at(2),
    }
}

async fn enrol<B: Backend>(db: &Database<B>, node: &NodeRecord) -> bool {
    let node = node.clone();
    db.store.write(move |conn| Box::pin(async move { conn.insert_node(&node).await })).await.unwrap()
}

pub(crate) async fn node_names_are_unique_and_nodes_can_be_changed_and_removed<B: Backend>(db: Database<B>) {
    let (nas, vps) = (node("nas"), node("vps"));
    assert!(enrol(&db, &vps).await && enrol(&db, &nas).await);
    assert!(!enrol(&db, &node("nas")).await, "the name is in use");
    assert!(!enrol(&db, &NodeRecord { name: "other".to_owned(), ..nas.clone() }).await, "the id is in use");
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.nodes().await.unwrap(), [nas.clone(), vps.clone()]);
    assert_eq!(reader.node(nas.id).await.unwrap(), Some(nas.clone()));
    assert_eq!(reader.node_named("vps").await.unwrap(), Some(vps.clone()));
    assert_eq!(reader.node_count().await.unwrap(), 2);

    let update = |id, name: &'static str| {
        let labels = [("os".to_owned(), "linux".to_owned())].into();
        db.store.write(move |conn| Box::pin(async move { conn.update_node(id, name, &labels, true).await }))
    };
    assert!(!update(nas.id, "vps").await.unwrap(), "another has the name");
    assert_eq!(reader.node(nas.id).await.unwrap(), Some(nas.clone()));
    assert!(update(nas.id, "store").await.unwrap());
    assert!(update(nas.id, "store").await.unwrap(), "a node may keep its name");
    let changed = reader.node(nas.id).await.unwrap().unwrap();
    assert_eq!((changed.name.as_str(), changed.draining), ("store", true));
    assert_eq!(changed.labels, [("os".to_owned(), "linux".to_owned())].into());

    let delete = |id| db.store.write(move |conn| Box::pin(conn.delete_node(id)));
    assert!(delete(nas.id).await.unwrap());
    assert!(!delete(nas.id).await.unwrap());
    assert!(!update(nas.id, "store").await.unwrap());
    assert_eq!(reader.nodes().await.unwrap(), [vps]);
}

pub(crate) async fn link_numbers_of_a_node_increase<B: Backend>(db: Database<B>) {
    let nas = node("nas");
    enrol(&db, &nas).await;
    let begin = |id, about: &'static str, now| {
        db.store.write(move |conn| Box::pin(conn.begin_node_link(id, about, at(now))))
    };
    assert_eq!(begin(nas.id, "{}", 10).await.unwrap(), Some(1));
    assert_eq!(begin(nas.id, r#"{"os":"linux"}"#, 20).await.unwrap(), Some(2));
    assert_eq!(begin(NodeId::new(), "{}", 20).await.unwrap(), None);
    for (now, known) in [(30, 30), (25, 30)] {
        let seen_at = [(nas.id, at(now))];
        db.store.write(move |conn| Box::pin(async move { conn.touch_nodes(&seen_at).await })).await.unwrap();
        let node = db.store.read().await.unwrap().node(nas.id).await.unwrap().unwrap();
        assert_eq!((node.epoch, node.last_seen_at), (2, Some(at(known))));
        assert_eq!(node.about.as_deref(), Some(r#"{"os":"linux"}"#));
    }
}

pub(crate) async fn certificates_are_barred_by_name_and_id<B: Backend>(db: Database<B>) {
    let ids = [NodeId::new(), NodeId::new()];
    for (id, now) in ids.into_iter().zip([1, 2]) {
        db.store.write(move |conn| Box::pin(conn.bar_node_certificate("nas", id, at(now)))).await.unwrap();
    }
    let mut reader = db.store.read().await.unwrap();
    let [former, last] = ids.map(|id| id.to_string());
    for (name, barred) in [("nas", true), (&last, true), (&former, false), ("vps", false), ("", false)] {
        assert_eq!(reader.is_node_certificate_barred(name).await.unwrap(), barred, "{name}");
    }
}

pub(crate) async fn invitation_is_valid_once_until_it_expires<B: Backend>(db: Database<B>) {
    let insert_invite = |invite: NodeInvite| {
        db.store.write(move |conn| Box::pin(async move { conn.insert_node_invite(&invite).await }))
    };
    let take =
        |hash: &'static str, now| db.store.write(move |conn| Box::pin(conn.take_node_invite(hash, at(now))));
    let first = invite("nas", "one", 100);
    insert_invite(first.clone()).await.unwrap();
    assert_eq!(
        db.store.read().await.unwrap().node_invites(at(99)).await.unwrap(),
        std::slice::from_ref(&first)
    );
    assert_eq!(take("two", 1).await.unwrap(), None);
    assert_eq!(take("one", 100).await.unwrap(), None, "expired");
    assert_eq!(take("one", 99).await.unwrap(), Some(first));
    assert_eq!(take("one", 99).await.unwrap(), None, "already used");

    insert_invite(invite("nas", "three", 100)).await.unwrap();
    insert_invite(invite("nas", "four", 100)).await.unwrap();
    assert_eq!(take("three", 1).await.unwrap(), None, "replaced");
    assert!(db.store.write(|conn| Box::pin(conn.delete_node_invite("nas"))).await.unwrap());
    assert_eq!(take("four", 1).await.unwrap(), None, "withdrawn");

    let nas = node("nas");
    enrol(&db, &nas).await;
    insert_invite(NodeInvite { node_id: nas.id, rejoin: true, ..invite("nas", "five", 100) }).await.unwrap();
    db.store.write(move |conn| Box::pin(conn.delete_node(nas.id))).await.unwrap();
    assert_eq!(take("five", 1).await.unwrap(), None, "the node was removed");

    insert_invite(invite("a", "six", 10)).await.unwrap();
    insert_invite(invite("b", "seven", 20)).await.unwrap();
    assert_eq!(db.store.write(|conn| Box::pin(conn.purge_node_invites(at(10)))).await.unwrap(), 1);
    assert_eq!(db.store.read().await.unwrap().node_invites(at(0)).await.unwrap().len(), 1);
}

pub(crate) async fn node_call_is_settled_once<B: Backend>(db: Database<B>) {
    let (mine, other) = (NodeId::new(), NodeId::new());
    let (sent, queued) = (call(mine, NodeCallState::Sent), call(mine, NodeCallState::Queued));
    let foreign_call = call(other, NodeCallState::Queued);
    for call in [&sent, &queued, &foreign_call] {
        let call = call.clone();
        let inserted =
            db.store.write(move |conn| Box::pin(async move { conn.insert_node_call(&call).await })).await;
        inserted.unwrap();
    }
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(reader.node_calls(Some(mine)).await.unwrap(), [sent.clone(), queued.clone()]);
    assert_eq!(reader.node_calls(None).await.unwrap().len(), 3);
    assert_eq!(reader.queued_node_calls(mine).await.unwrap(), 1);

    let (id, store) = (queued.call_id, Uuid::new_v4());
    assert!(db.store.write(move |conn| Box::pin(conn.send_node_call(id, store))).await.unwrap());
    let now = NodeCallRecord { state: NodeCallState::Sent, store_id: Some(store), ..queued };
    assert_eq!(reader.node_call(id).await.unwrap(), Some(now));
    assert_eq!(reader.queued_node_calls(mine).await.unwrap(), 0);

    let settle = || db.store.write(move |conn| Box::pin(conn.delete_node_call(id)));
    assert!(settle().await.unwrap());
    assert!(!settle().await.unwrap(), "a call is settled only once");
    assert!(!db.store.write(move |conn| Box::pin(conn.send_node_call(id, store))).await.unwrap());
    assert_eq!(reader.node_calls(Some(mine)).await.unwrap(), [sent]);
}

pub(crate) async fn node_call_can_be_withdrawn_only_before_it_is_sent<B: Backend>(db: Database<B>) {
    let node = NodeId::new();
    let (sent, queued) = (call(node, NodeCallState::Sent), call(node, NodeCallState::Queued));
    for call in [&sent, &queued] {
        let call = call.clone();
        let inserted =
            db.store.write(move |conn| Box::pin(async move { conn.insert_node_call(&call).await })).await;
        inserted.unwrap();
    }
    let mut reader = db.store.read().await.unwrap();
    for (queued_before, sent_before, overdue) in [(50, 100, 0), (51, 100, 1), (50, 101, 1), (51, 101, 2)] {
        let found = reader.overdue_node_calls(at(queued_before), at(sent_before)).await.unwrap();
        assert_eq!(found.len(), overdue, "{queued_before} {sent_before}");
    }
    let withdraw = |id| db.store.write(move |conn| Box::pin(conn.withdraw_node_call(id)));
    assert!(!withdraw(sent.call_id).await.unwrap(), "it may be running");
    assert!(withdraw(queued.call_id).await.unwrap());
    assert!(!withdraw(queued.call_id).await.unwrap());
    assert_eq!(reader.node_calls(Some(node)).await.unwrap(), [sent]);
}

pub(crate) async fn held_call_starts_once_and_keeps_its_first_outcome<B: Backend>(db: Database<B>) {
    let [one, two] = [CallId::new(), CallId::new()];
    let accept = |id| {
        db.store.write_through(move |conn| Box::pin(conn.insert_held_call(id, "terminal", "agent:a", at(3))))
    };
    assert!(accept(one).await.unwrap() && accept(two).await.unwrap());
    assert!(!accept(one).await.unwrap(), "it must not start again");
    let end = |id, result: &'static str| {
        db.store.write_through(move |conn| Box::pin(conn.end_held_call(id, result)))
    };
    assert!(end(one, "first").await.unwrap());
    assert!(!end(one, "second").await.unwrap());
    let interrupt = || db.store.write_through(|conn| Box::pin(conn.interrupt_held_calls("stopped")));
    assert_eq!(interrupt().await.unwrap(), 1);
    assert_eq!(interrupt().await.unwrap(), 0);
    assert!(!end(two, "late").await.unwrap());
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(
        reader.held_calls().await.unwrap(),
        [(one, HeldState::Finished), (two, HeldState::Interrupted)]
    );
    let held = reader.held_call(one).await.unwrap().unwrap();
    assert_eq!((held.result.as_deref(), held.tool.as_str()), (Some("first"), "terminal"));
    assert_eq!((held.subject.as_str(), held.accepted_at), ("agent:a", at(3)));
    let forget = |id| db.store.write_through(move |conn| Box::pin(conn.delete_held_call(id)));
    assert!(forget(one).await.unwrap());
    assert!(!forget(one).await.unwrap());
    assert_eq!(reader.held_call(one).await.unwrap(), None);
}

/// A newly created store has a different id.
pub(crate) async fn store_id_is_stable<B: Backend>(db: Database<B>) {
    let id = db.store.id();
    assert_ne!(id, Uuid::nil());
    let db = db.reopened().await;
    assert_eq!(db.store.id(), id);
    let other = Database::<B>::fresh().await.unwrap();
    assert_ne!(other.store.id(), id);
}
