//! Real nodes: the one inside the hub, and one that dials it.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use plexus_kit::{Clock, Config, Environment, Stage, Supervisor};
use plexus_node::{Credential, Dialler, HubClient, Jitter, Node, NodeOptions, Transport};
use plexus_proto::api::JoinNodeParams;
use plexus_testkit::TestHub;
use serde_json::{Value, json};

use super::{POLL, TIMEOUT};

async fn online(hub: &TestHub, name: &str) -> Value {
    let online = async {
        loop {
            let node = hub.api(&format!("/api/v1/nodes/{name}")).await;
            if node["state"] == "online" && node["rtt_ms"].is_number() {
                return node;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, online).await.expect("the node is online in time")
}

async fn run(hub: &TestHub, arguments: Value) -> Value {
    let request = hub.http().post(hub.url("/api/v1/tools/terminal/call")).bearer_auth(hub.admin_token());
    let answer = request.json(&json!({ "arguments": arguments })).send().await.unwrap();
    answer.json().await.unwrap()
}

#[tokio::test]
async fn hubs_own_machine_is_a_node() {
    let hub = TestHub::start_with(|config: &mut Config| config.nodes.local = true).await;
    // A call that arrives before the node has started waits for it.
    let ran = run(&hub, json!({ "action": "run", "command": "echo here" })).await;
    assert!(ran["text"].as_str().is_some_and(|text| text.contains("here")), "{ran}");
    let local = online(&hub, "local").await;
    assert_eq!(local["transport"], "memory");
    let rename = hub.http().patch(hub.url("/api/v1/nodes/local")).bearer_auth(hub.admin_token());
    let rename = rename.json(&json!({ "name": "other" })).send().await.unwrap();
    assert!(rename.status().is_client_error(), "{}", rename.status());
    let remove = hub.http().delete(hub.url("/api/v1/nodes/local")).bearer_auth(hub.admin_token());
    assert!(remove.send().await.unwrap().status().is_client_error());
    let hub = hub.restart().await;
    let ran = run(&hub, json!({ "action": "run", "command": "echo again", "node": "local" })).await;
    assert!(ran["text"].as_str().is_some_and(|text| text.contains("again")), "{ran}");
    assert_eq!(online(&hub, "local").await["id"], local["id"], "the same node");
}

#[tokio::test]
async fn disabled_local_node_runs_nothing() {
    let hub = TestHub::start().await;
    let ran = run(&hub, json!({ "action": "run", "command": "true" })).await;
    assert_eq!(ran["success"], false, "{ran}");
    assert!(ran["text"].as_str().is_some_and(|text| text.contains("Nothing was run")), "{ran}");
}

/// Runs a node that dials the hub, in this process.
async fn dials(hub: &TestHub, name: &str, folder: &Path, transport: Transport, supervisor: &Supervisor) {
    let invite = hub.http().post(hub.url("/api/v1/nodes/invites")).bearer_auth(hub.admin_token());
    let invite: Value = invite.json(&json!({ "name": name })).send().await.unwrap().json().await.unwrap();
    let dialled = HubClient::new(&hub.url(""), &Default::default()).unwrap();
    let code = invite["code"].as_str().map(str::to_owned);
    let params = JoinNodeParams { code, key: None, name: None, labels: Default::default() };
    let given = dialled.join(&params).await.unwrap();
    let credential = Credential::new(&dialled, given, &Clock::system());
    let environment: Environment =
        [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into_iter().collect();
    let options = NodeOptions::new(credential.node_id, folder.to_owned(), environment);
    let node = Node::open(options, supervisor).await.unwrap();
    let dialler = Dialler::new(node, dialled, (folder.to_owned(), credential), transport, supervisor)
        .with_jitter(Jitter::fixed(0.0));
    let stop = supervisor.stopping(Stage::Intake);
    supervisor.spawn(Stage::Intake, "dialler", async move { dialler.run(stop).await });
}

#[tokio::test]
async fn dialing_node_runs_commands_over_either_transport() {
    for (transport, shown) in [(Transport::Ws, "web_socket"), (Transport::Poll, "poll")] {
        let hub = TestHub::start().await;
        let folder = tempfile::tempdir().unwrap();
        let supervisor = Supervisor::new();
        dials(&hub, "nas", folder.path(), transport, &supervisor).await;
        assert_eq!(online(&hub, "nas").await["transport"], shown);
        for _ in 0..3 {
            let ran =
                run(&hub, json!({ "action": "run", "command": "echo $((40 + 2))", "node": "nas" })).await;
            assert!(ran["text"].as_str().is_some_and(|text| text.contains("42")), "{ran}");
        }
        let drained = supervisor.shutdown(Duration::from_secs(20)).await;
        assert!(drained.aborted.is_empty(), "{:?}", drained.aborted);
    }
}

/// With a size close to the limit of a result, over both transports, in both eras and over REST.
#[tokio::test]
async fn node_image_reaches_every_kind_of_client() {
    for transport in [Transport::Ws, Transport::Poll] {
        let hub = TestHub::start().await;
        let (folder, pictures) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let supervisor = Supervisor::new();
        dials(&hub, "nas", folder.path(), transport, &supervisor).await;
        online(&hub, "nas").await;
        let path = pictures.path().join("noise.png");
        let mut number = 1_u64;
        let noise = image::RgbImage::from_fn(500, 480, |_, _| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            image::Rgb([(number >> 33) as u8, (number >> 41) as u8, (number >> 49) as u8])
        });
        noise.save(&path).unwrap();
        let original = std::fs::read(&path).unwrap();
        assert!(original.len() > 700_000, "{}", original.len());
        let arguments = json!({ "path": path, "node": "nas" });

        let client = hub.mcp(&hub.admin_token());
        let modern = client.tool("image_view", arguments.clone()).await;
        let (session, _) = client.initialize("2025-11-25").await;
        let params = json!({ "name": "image_view", "arguments": arguments.clone() });
        let classic = session.call("tools/call", params).await.result();
        let request =
            hub.http().post(hub.url("/api/v1/tools/image_view/call")).bearer_auth(hub.admin_token());
        let rest = request.json(&json!({ "arguments": arguments })).send().await.unwrap();
        let rest: Value = rest.json().await.unwrap();
        for (content, structured) in [
            (&modern["content"], &modern["structuredContent"]),
            (&classic["content"], &classic["structuredContent"]),
            (&rest["content"], &rest["structured"]),
        ] {
            assert_eq!(
                (&content[0]["type"], &content[0]["mimeType"]),
                (&json!("image"), &json!("image/png")),
                "{modern}"
            );
            let data = content[0]["data"].as_str().unwrap();
            assert!(base64::engine::general_purpose::STANDARD.decode(data).unwrap() == original);
            assert_eq!((&structured["width"], &structured["scaled"]), (&json!(500), &json!(false)));
        }
        let drained = supervisor.shutdown(Duration::from_secs(20)).await;
        assert!(drained.aborted.is_empty(), "{:?}", drained.aborted);
    }
}
