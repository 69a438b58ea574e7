//! Nodes that violate the protocol. Each is disconnected with a reason; the hub and the other nodes are not affected.

use plexus_proto::NodeId;
use plexus_testkit::TestHub;
use serde_json::json;

use super::scripted_node::{ALL_TRANSPORTS, EnrolledNode, LinkEnded, LinkTransport};
use super::{quick_hub, until_state};

const POLICY: LinkEnded = LinkEnded(1008);

/// Sends a first frame, and returns the reason for the disconnect.
async fn close_reason(hub: &TestHub, node: &EnrolledNode, text: String) -> String {
    let mut end = node.ws(hub).await.unwrap();
    end.send_text(text).await;
    let bye = end.next().await.expect("a last word");
    assert_eq!(bye["type"], "bye", "{bye}");
    assert_eq!(end.end().await, POLICY);
    bye["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn link_must_begin_with_its_nodes_hello() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let mut other = node.hello();
    other["node_id"] = json!(NodeId::new());
    let mut old = node.hello();
    old["versions"] = json!([99]);
    let mut much = node.hello();
    much["tools"] = (0..1_000).map(|n| json!({ "name": format!("t{n}") })).collect();
    let mut long = node.hello();
    long["hostname"] = "x".repeat(10_000).into();
    let labelled = |key: &str, value: &str| {
        let mut hello = node.hello();
        hello["labels"] = json!({ key: value });
        hello.to_string()
    };
    for (frame, why) in [
        (labelled("role", "nas\n\u{1b}[31m"), "is not a label"),
        (labelled("role\u{202e}", "nas"), "is not a label"),
        (labelled("role", &"x".repeat(64)), "is not a label"),
        ("garbage".to_owned(), "not a frame"),
        ("[1, 2]".to_owned(), "not a frame"),
        (r#"{"type":"ping","n":1}"#.to_owned(), "must be hello"),
        (r#"{"type":"gossip"}"#.to_owned(), "must be hello"),
        (r#"{"type":"hello"}"#.to_owned(), "cannot parse frame"),
        (other.to_string(), "this is the link of the node"),
        (old.to_string(), "no common version"),
        (much.to_string(), "1000 tools"),
        (long.to_string(), "10000 bytes"),
    ] {
        let reason = close_reason(&hub, &node, frame.clone()).await;
        assert!(reason.contains(why), "{frame}: {reason}");
    }
    until_state(&hub, &node, "new").await;
}

#[tokio::test]
async fn link_without_hello_is_closed() {
    let hub = quick_hub().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let mut end = node.ws(&hub).await.unwrap();
    assert_eq!(end.end().await, LinkEnded(1000));
}

#[tokio::test]
async fn link_requires_the_nodes_own_credential() {
    let hub = TestHub::start().await;
    let (nas, attic) = (EnrolledNode::new(&hub, "nas").await, EnrolledNode::new(&hub, "attic").await);
    let agent = hub.token("codex", &["call:*"]).await.token;
    for (id, token, status) in [
        (nas.id, &attic.token, 403),
        (nas.id, &agent, 403),
        (nas.id, &hub.admin_token(), 403),
        (NodeId::new(), &nas.token, 403),
        (nas.id, &"nonsense".to_owned(), 401),
    ] {
        assert_eq!(nas.ws_as(&hub, id, token).await.err(), Some(status));
        let frames = hub.http().get(hub.url(&format!("/api/v1/nodes/{id}/frames?epoch=1&after=0")));
        assert_eq!(frames.bearer_auth(token).send().await.unwrap().status(), status);
    }
}

#[tokio::test]
async fn invalid_frame_ends_only_its_own_link() {
    let hub = TestHub::start().await;
    let (nas, attic) = (EnrolledNode::new(&hub, "nas").await, EnrolledNode::new(&hub, "attic").await);
    let (mut well, _) = attic.link(&hub, LinkTransport::WebSocket).await;
    well.answer_probe().await;
    let giant = json!({ "type": "event", "call_id": NodeId::new(), "seq": 1, "kind": "x", "payload": { "text": "x".repeat(5 << 20) } });
    for text in [
        "garbage".to_owned(),
        r#"{"type":"result","call_id":"01890a5d-ac96-774b-bcce-b302099a8057","outcome":{}}"#.to_owned(),
        r#"{"type":"welcome","version":1,"epoch":1,"name":"x","heartbeat_ms":1,"missed":1}"#.to_owned(),
        giant.to_string(),
    ] {
        let (mut end, _) = nas.link(&hub, LinkTransport::WebSocket).await;
        let begin: String = text.chars().take(60).collect();
        end.send_text(text).await;
        let ended = end.end().await;
        assert!(ended == POLICY || ended == LinkEnded(0), "{begin}: {ended:?}");
    }
    until_state(&hub, &attic, "online").await;
}

#[tokio::test]
async fn unknown_frame_types_are_ignored() {
    for transport in ALL_TRANSPORTS {
        let hub = TestHub::start().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, transport).await;
        end.send(json!({ "type": "gossip", "about": ["others"] })).await;
        end.send(json!({ "type": "ping", "n": 3, "mood": "good" })).await;
        assert_eq!(end.next_of("pong").await["n"], 3);
    }
}

#[tokio::test]
async fn unexpected_result_is_acknowledged_and_dropped() {
    for transport in ALL_TRANSPORTS {
        let hub = TestHub::start().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, transport).await;
        let unknown = json!({ "call_id": plexus_proto::CallId::new() });
        end.answer(&unknown, "surprise").await;
        assert_eq!(end.next_of("ack").await["call_id"], unknown["call_id"]);
    }
}

#[tokio::test]
async fn flooding_node_is_disconnected() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    for _ in 0..100 {
        end.send(node.hello()).await;
    }
    assert_eq!(end.end().await, POLICY);
}

#[tokio::test]
async fn links_per_node_are_limited() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let mut open = Vec::new();
    let refused = loop {
        match node.ws(&hub).await {
            Ok(end) => open.push(end),
            Err(status) => break status,
        }
        assert!(open.len() < 100);
    };
    assert_eq!(refused, 429);
    drop(open);
}

#[tokio::test]
async fn polls_with_missing_frames_are_refused() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let url = hub.url(&format!("/api/v1/nodes/{}/frames", node.id));
    let post = async |body: serde_json::Value| {
        let request = hub.http().post(&url).bearer_auth(&node.token).json(&body);
        request.send().await.unwrap().status().as_u16()
    };
    let ping = json!({ "type": "ping", "n": 1 });
    assert_eq!(post(json!({ "frames": [] })).await, 400);
    assert_eq!(post(json!({ "frames": [{ "n": 2, "frame": node.hello() }] })).await, 400);
    assert_eq!(post(json!({ "frames": [{ "n": 1, "frame": ping }] })).await, 400);
    assert_eq!(post(json!({ "epoch": 1, "frames": [{ "n": 1, "frame": ping }] })).await, 410);
    assert_eq!(post(json!({ "frames": [{ "n": 1, "frame": node.hello() }] })).await, 200);
    assert_eq!(post(json!({ "epoch": 1, "frames": [{ "n": 3, "frame": ping }] })).await, 400, "2 is missing");
    assert_eq!(post(json!({ "epoch": 1, "frames": [{ "n": 2, "frame": ping }] })).await, 200);
    let (_end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    assert_eq!(post(json!({ "epoch": 1, "frames": [{ "n": 3, "frame": ping }] })).await, 409);
}
