//! The argument `session`: sharing within one holder, nothing beyond.

use std::sync::Arc;

use plexus_auth::Principal;
use plexus_proto::{ErrorCode, SessionId};
use plexus_tools::{Call, CallReply, SessionKey};
use serde_json::{Value, json};

use crate::hub::{Hub, bounded, call};

async fn call_from(
    hub: &Hub,
    agent: &Arc<Principal>,
    client: &str,
    tool: &str,
    arguments: Value,
) -> CallReply {
    let session = SessionKey::new("external", &["test", client], None);
    hub.dispatcher.call(agent.clone(), Call { session, ..call(tool, arguments) }).await
}

fn add(text: &str, session: &str) -> Value {
    json!({ "action": "add", "text": text, "session": session })
}

fn list(session: &str) -> Value {
    json!({ "action": "list", "session": session })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_shared_by_all_clients_of_one_holder_and_by_nobody_else() {
    bounded(async {
        let hub = Hub::start().await;
        let (ann, bob) = (hub.agent("ann", &["call:*"]).await, hub.agent("bob", &["call:*"]).await);
        call_from(&hub, &ann, "1", "todo", add("shared", "release")).await.result.unwrap();
        let other_client = call_from(&hub, &ann, "2", "todo", list("release")).await;
        assert_eq!(other_client.result.unwrap().text(), "[ ] 1. shared");
        let own = call_from(&hub, &ann, "2", "todo", json!({ "action": "list" })).await;
        assert_eq!(own.result.unwrap().text(), "The list is empty.");
        let of_bob = call_from(&hub, &bob, "1", "todo", list("release")).await;
        assert_eq!(of_bob.result.unwrap().text(), "The list is empty.");
        // The call itself is recorded in the session it came from.
        let reply = call_from(&hub, &ann, "1", "todo", list("release")).await;
        let info = call_from(&hub, &ann, "1", "session_info", json!({})).await.result.unwrap();
        assert_eq!(json!(reply.session_id), info.structured().unwrap().into_owned()["session_id"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_names_are_two_sessions() {
    bounded(async {
        let hub = Hub::start().await;
        let ann = hub.agent("ann", &["call:*"]).await;
        let long = "x".repeat(120);
        for (one, other) in [
            ("plan".to_owned(), "Plan".to_owned()),
            ("my plan".to_owned(), "my_plan".to_owned()),
            ("東京".to_owned(), "大阪".to_owned()),
            (format!("{long}1"), format!("{long}2")),
        ] {
            hub.call(&ann, "todo", add("of one", &one)).await.result.unwrap();
            let listed = hub.call(&ann, "todo", list(&other)).await.result;
            // Refusing a name is fine, mixing two up is not.
            if let Ok(listed) = listed {
                assert_eq!(listed.text(), "The list is empty.", "{one:?} and {other:?} are one session");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_found_by_id_and_by_key_within_one_holder() {
    bounded(async {
        let hub = Hub::start().await;
        let ann = hub.agent("ann", &["call:*"]).await;
        let reply = call_from(&hub, &ann, "1", "todo", json!({ "action": "add", "text": "x" })).await;
        let id = reply.session_id.unwrap().to_string();
        for name in [id.as_str(), "external:test:1"] {
            let listed = call_from(&hub, &ann, "2", "todo", list(name)).await.result.unwrap();
            assert_eq!(listed.text(), "[ ] 1. x", "{name}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_of_another_owner_is_reported_as_missing() {
    bounded(async {
        let hub = Hub::start().await;
        let (ann, bob) = (hub.agent("ann", &["call:*"]).await, hub.agent("bob", &["call:*"]).await);
        let reply =
            call_from(&hub, &ann, "private", "todo", json!({ "action": "add", "text": "hers" })).await;
        let (existing, never) = (reply.session_id.unwrap().to_string(), SessionId::new().to_string());
        let pairs = [(existing.as_str(), never.as_str()), ("external:test:private", "external:test:nothere")];
        for (hers, nobodys) in pairs {
            for (tool, arguments) in [
                ("todo", json!({ "action": "list" })),
                ("todo", json!({ "action": "add", "text": "x" })),
                ("scratchpad", json!({ "action": "list" })),
                ("scratchpad", json!({ "action": "write", "section": "a", "content": "b" })),
                ("session_info", json!({})),
            ] {
                let ask = async |session: &str| {
                    let mut arguments = arguments.clone();
                    arguments["session"] = session.into();
                    hub.err(&bob, tool, arguments).await
                };
                let (of_hers, of_nobodys) = (ask(hers).await, ask(nobodys).await);
                assert_eq!(of_hers.code, ErrorCode::NotFound);
                assert_eq!(of_hers.message, format!("No session {hers:?}"));
                let renamed = serde_json::to_string(&of_hers).unwrap().replace(hers, nobodys);
                assert_eq!(renamed, serde_json::to_string(&of_nobodys).unwrap());
            }
        }
        let untouched = call_from(&hub, &ann, "private", "todo", json!({ "action": "list" })).await;
        assert_eq!(untouched.result.unwrap().text(), "[ ] 1. hers");
        // An admin may look.
        assert_eq!(hub.ok(&hub.admin(), "todo", list(&existing)).await.text(), "[ ] 1. hers");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_info_tells_who_and_where() {
    bounded(async {
        let hub = Hub::start().await;
        let ann = hub.agent("ann", &["call:*"]).await;
        let reply = hub.call(&ann, "session_info", json!({})).await;
        let info = reply.result.unwrap().structured().unwrap().into_owned();
        assert_eq!(info["session_id"], json!(reply.session_id));
        assert_eq!((&info["key"], &info["owner"]), (&json!("external:test:1"), &json!("agent:ann")));
        assert_eq!(info["principal"], "agent:ann");
        let folder = std::path::PathBuf::from(info["files_dir"].as_str().unwrap());
        assert!(folder.is_dir() && folder.starts_with(hub.dir.path()));
    })
    .await;
}
