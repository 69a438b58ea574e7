//! How machines become nodes, and what unknown machines, removed nodes and other nodes cannot do.

use std::time::Duration;

use plexus_kit::Secret;
use plexus_proto::api::{Node, NodeCredential, NodeInvite, NodeState};
use plexus_testkit::TestHub;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Answer, Client, send};

const KEY: &str = "a key of thirty-two characters..";

async fn create_invite(hub: &TestHub, params: Value) -> NodeInvite {
    let invite = Client::admin(hub).post("/nodes/invites", &params).await.ok();
    serde_json::from_value(invite).unwrap()
}

/// Joins without a token.
async fn join(hub: &TestHub, params: &Value) -> Answer {
    send(hub.http().post(hub.url("/api/v1/nodes/join")).json(params)).await
}

async fn join_new(hub: &TestHub, name: &str) -> NodeCredential {
    let code = create_invite(hub, json!({ "name": name })).await.code;
    serde_json::from_value(join(hub, &json!({ "code": code })).await.ok()).unwrap()
}

/// The credential that a node presents when it dials.
fn token_of(credential: &NodeCredential) -> &str {
    credential.token.as_deref().unwrap()
}

fn client<'h>(hub: &'h TestHub, credential: &NodeCredential) -> Client<'h> {
    Client::with_token(hub, token_of(credential).to_owned())
}

async fn node(hub: &TestHub, name: &str) -> Node {
    serde_json::from_value(hub.api(&format!("/api/v1/nodes/{name}")).await).unwrap()
}

#[tokio::test]
async fn invited_machine_becomes_a_visible_node() {
    let hub = TestHub::start().await;
    let invite =
        create_invite(&hub, json!({ "name": "nas", "labels": { "role": "nas" }, "ttl_seconds": 60 })).await;
    assert_eq!(invite.hub, hub.url(""));
    let pending = hub.api("/api/v1/nodes/invites").await;
    assert_eq!(pending["items"][0]["name"], "nas");
    assert!(!pending.to_string().contains(&invite.code), "the code is shown once");

    let credential = join(&hub, &json!({ "code": invite.code })).await;
    assert_eq!(credential.status, 201);
    let credential: NodeCredential = serde_json::from_value(credential.body).unwrap();
    assert_eq!(hub.api("/api/v1/nodes/invites").await["items"], json!([]));
    let joined_node = node(&hub, "nas").await;
    assert_eq!(
        (joined_node.id, joined_node.state, joined_node.draining),
        (credential.node_id, NodeState::New, false)
    );
    assert_eq!(joined_node.labels, [("role".to_owned(), "nas".to_owned())].into());
    assert_eq!(node(&hub, &credential.node_id.to_string()).await.name, "nas");

    // No later answer may contain the code.
    let hub = hub.restart().await;
    let audit = hub.api("/api/v1/audit").await.to_string();
    assert!(!audit.contains(&invite.code) && !audit.contains(token_of(&credential)));
    assert!(audit.contains("node_invite") && audit.contains("node_join"));
    assert_eq!(node(&hub, "nas").await.id, credential.node_id);
    let renewed = client(&hub, &credential)
        .post(&format!("/nodes/{}/credential", credential.node_id), &json!({}))
        .await;
    assert_eq!(renewed.status, 201, "{renewed:?}");
}

#[tokio::test]
async fn code_can_be_used_once() {
    let hub = TestHub::start().await;
    let code = json!({ "code": create_invite(&hub, json!({ "name": "nas" })).await.code });
    let (one, two, three) = tokio::join!(join(&hub, &code), join(&hub, &code), join(&hub, &code));
    let mut statuses = [one, two, three].map(|answer| answer.status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 401, 401]);
    assert_eq!(join(&hub, &code).await.refused(401), "unauthenticated");
    let nodes = hub.api("/api/v1/nodes").await;
    let named = nodes["items"].as_array().unwrap().iter().filter(|node| node["name"] == "nas").count();
    assert_eq!(named, 1);
}

#[tokio::test]
async fn expired_or_withdrawn_code_is_refused() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let withdrawn = json!({ "code": create_invite(&hub, json!({ "name": "a" })).await.code });
    send(admin.request(Method::DELETE, "/nodes/invites/a")).await.ok();
    assert_eq!(join(&hub, &withdrawn).await.refused(401), "unauthenticated");
    // Removing a node that has not joined yet withdraws its invitation.
    let removed = json!({ "code": create_invite(&hub, json!({ "name": "b" })).await.code });
    assert_eq!(send(admin.request(Method::DELETE, "/nodes/b")).await.ok()["name"], "b");
    assert_eq!(join(&hub, &removed).await.refused(401), "unauthenticated");

    let expired = json!({ "code": create_invite(&hub, json!({ "name": "c" })).await.code });
    let hub = hub.restart_later(Duration::from_secs(15 * 60)).await;
    assert_eq!(join(&hub, &expired).await.refused(401), "unauthenticated");
}

#[tokio::test]
async fn removed_node_is_shut_out_permanently() {
    let hub = TestHub::start().await;
    let nas = join_new(&hub, "nas").await;
    let again = json!({ "code": create_invite(&hub, json!({ "name": "nas", "rejoin": true })).await.code });
    let own = client(&hub, &nas);
    let path = format!("/nodes/{}/credential", nas.node_id);
    let renewed: NodeCredential = serde_json::from_value(own.post(&path, &json!({})).await.ok()).unwrap();
    let removed = send(Client::admin(&hub).request(Method::DELETE, "/nodes/nas")).await.ok();
    assert_eq!(removed["id"], nas.node_id.to_string());
    for credential in [nas, renewed] {
        let answer = client(&hub, &credential).post(&path, &json!({})).await;
        assert_eq!(answer.refused(401), "unauthenticated");
    }
    assert_eq!(join(&hub, &again).await.refused(401), "unauthenticated");
    assert_eq!(Client::admin(&hub).get("/nodes/nas").await.refused(404), "not_found");
    let audited = hub.api("/api/v1/audit?tool=node_remove").await;
    assert_eq!(audited["items"][0]["arguments"]["name"], "nas", "{audited}");
}

#[tokio::test]
async fn changed_node_keeps_its_credential() {
    let hub = TestHub::start().await;
    let (nas, vps) = (join_new(&hub, "nas").await, join_new(&hub, "vps").await);
    let admin = Client::admin(&hub);
    let change =
        |node: &str, body: Value| admin.request(Method::PATCH, &format!("/nodes/{node}")).json(&body);
    let changed = send(change("nas", json!({ "name": "store", "labels": { "role": "nas" } }))).await.ok();
    assert_eq!((&changed["name"], &changed["labels"]), (&json!("store"), &json!({ "role": "nas" })));
    let drained = send(change("store", json!({ "draining": true }))).await.ok();
    assert_eq!((&drained["draining"], &drained["labels"]), (&json!(true), &json!({ "role": "nas" })));
    assert_eq!(send(change("store", json!({ "name": "vps" }))).await.refused(409), "conflict");
    for bad in [
        json!({ "name": "NAS" }),
        json!({ "labels": { "a b": "c" } }),
        json!({ "name": "local" }),
        json!({ "x": 1 }),
    ] {
        assert!([400, 409].contains(&send(change("store", bad.clone())).await.status.as_u16()), "{bad}");
    }
    assert_eq!(send(change("nas", json!({}))).await.refused(404), "not_found");
    for (credential, name) in [(nas, "store"), (vps, "vps")] {
        let path = format!("/nodes/{}/credential", credential.node_id);
        let renewed = client(&hub, &credential).post(&path, &json!({})).await.ok();
        assert_eq!(renewed["name"], name);
    }
}

#[tokio::test]
async fn wrong_codes_and_keys_are_throttled_and_valid_ones_are_not() {
    let hub = TestHub::start_with(|config| {
        config.auth.failed_per_minute = 5;
        config.nodes.key = Some(Secret::from(KEY));
    })
    .await;
    let code = json!({ "code": create_invite(&hub, json!({ "name": "nas" })).await.code });
    for number in 0..5 {
        let wrong = match number % 2 {
            0 => json!({ "code": format!("{number:032x}") }),
            _ => json!({ "key": format!("{number:032x}"), "name": "ci" }),
        };
        assert_eq!(join(&hub, &wrong).await.refused(401), "unauthenticated");
    }
    let answer = join(&hub, &json!({ "code": "0".repeat(32) })).await;
    assert_eq!(answer.refused(429), "overloaded");
    assert!(answer.header("retry-after").parse::<u64>().unwrap() > 0);
    // A valid code is not delayed by invalid ones from the same address.
    assert_eq!(join(&hub, &code).await.status, 201);
    assert_eq!(join(&hub, &json!({ "key": KEY, "name": "ci" })).await.status, 201);
}

#[tokio::test]
async fn hub_key_admits_only_new_machines() {
    let hub = TestHub::start_with(|config| config.nodes.key = Some(Secret::from(KEY))).await;
    let nas = join_new(&hub, "nas").await;
    let by_key = |name: &str| json!({ "key": KEY, "name": name, "labels": { "pool": "ci" } });
    let first = join(&hub, &by_key("ci-1")).await.ok();
    let second = join(&hub, &by_key("ci-1")).await.ok();
    assert_eq!(first["node_id"], second["node_id"]);
    assert_eq!(node(&hub, "ci-1").await.labels, [("pool".to_owned(), "ci".to_owned())].into());
    let old = Client::with_token(&hub, first["token"].as_str().unwrap().to_owned());
    let path = format!("/nodes/{}/credential", first["node_id"].as_str().unwrap());
    assert_eq!(old.post(&path, &json!({})).await.refused(401), "unauthenticated");
    assert_eq!(join(&hub, &by_key("nas")).await.refused(403), "forbidden");
    let path = format!("/nodes/{}/credential", nas.node_id);
    assert_eq!(client(&hub, &nas).post(&path, &json!({})).await.status, 201);
    for (what, body) in [
        ("neither", json!({})),
        ("both", json!({ "code": "x", "key": KEY })),
        ("no name", json!({ "key": KEY })),
        ("a name with a code", json!({ "code": "x", "name": "y" })),
        ("the hub's own", by_key("local")),
        ("no name at all", by_key("")),
    ] {
        assert_eq!(join(&hub, &body).await.refused(400), "invalid_request", "{what}");
    }
    let huge = json!({ "code": "x".repeat(20_000) });
    assert_eq!(join(&hub, &huge).await.refused(413), "too_large");

    let hub = TestHub::start().await;
    assert_eq!(join(&hub, &by_key("ci-1")).await.refused(401), "unauthenticated");
}

/// Complements the table of routes, which has a column for nodes: MCP in both eras, and event streams.
#[tokio::test]
async fn node_credential_has_no_user_permissions() {
    let hub = TestHub::start().await;
    let (nas, vps) = (join_new(&hub, "nas").await, join_new(&hub, "vps").await);
    let call = json!({ "name": "todo", "arguments": { "action": "list" } });
    let modern = hub.mcp(token_of(&nas)).modern("tools/call", call).await;
    assert_eq!(modern.status, 403, "{}", modern.body);
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let session = hub.http().post(hub.url("/mcp")).bearer_auth(token_of(&nas)).json(&initialize);
    let session = session.header("accept", "application/json, text/event-stream");
    assert_eq!(session.send().await.unwrap().status(), 403);
    let own = client(&hub, &nas);
    let path = format!("/nodes/{}/credential", vps.node_id);
    assert_eq!(own.post(&path, &json!({})).await.refused(403), "forbidden");
    let called = hub.api("/api/v1/audit?tool=todo").await;
    assert_eq!(called["items"], json!([]), "no call was made");
}
