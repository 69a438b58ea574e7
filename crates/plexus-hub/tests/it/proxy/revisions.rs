//! Every revision, over both transports, with and without a hub.

use serde_json::{Value, json};

use super::{SESSIONS, STATELESS, Scene};

/// The greeting and the tools of a hub in a session of this revision.
async fn via_hub(scene: &Scene, version: &str) -> (Value, Value) {
    let (client, greeting) = scene.hub.mcp(&scene.token).initialize(version).await;
    (greeting, client.call("tools/list", json!({})).await.result()["tools"].clone())
}

/// The same through the proxy: over HTTP, and over stdio.
async fn via_proxy(scene: &Scene, version: &str) -> [(Value, Value); 2] {
    let (client, greeting) = scene.proxy.client().initialize(version).await;
    let client = client.header("mcp-protocol-version", greeting["protocolVersion"].as_str().unwrap());
    let over_http = (greeting, client.call("tools/list", json!({})).await.result()["tools"].clone());
    let mut agent = scene.proxy.stdio_client();
    let greeting = agent.initialize(version).await;
    let tools = agent.request("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(agent.request("ping", json!({})).await["result"], json!({}));
    agent.hang_up().await;
    [over_http, (greeting, tools)]
}

#[tokio::test]
async fn session_revisions_see_the_same_as_at_the_hub() {
    let scene = Scene::ready().await;
    let mut expected = Vec::new();
    for version in SESSIONS {
        let (greeting, tools) = via_hub(&scene, version).await;
        assert_eq!(greeting["protocolVersion"], version);
        for actual in via_proxy(&scene, version).await {
            assert_eq!(actual, (greeting.clone(), tools.clone()), "{version}");
        }
        expected.push((version, greeting, tools));
    }
    // An unknown revision is answered with one that the hub supports.
    let (greeting, _) = via_hub(&scene, "2031-01-01").await;
    assert_eq!(
        via_proxy(&scene, "2031-01-01").await.map(|(actual, _)| actual),
        [greeting.clone(), greeting.clone()]
    );

    scene.disconnect_hub().await;
    for (version, greeting, tools) in expected {
        for actual in via_proxy(&scene, version).await {
            assert_eq!(actual, (greeting.clone(), tools.clone()), "{version} without a hub");
        }
    }
    assert_eq!(via_proxy(&scene, "2031-01-01").await.map(|(actual, _)| actual), [greeting.clone(), greeting]);
}

#[tokio::test]
async fn stateless_revision_sees_the_same_as_at_the_hub() {
    let scene = Scene::ready().await;
    let hub = scene.hub.mcp(&scene.token);
    let (discovered, listed) = (
        hub.modern("server/discover", json!({})).await.result(),
        hub.modern("tools/list", json!({})).await.result(),
    );
    assert!(discovered["supportedVersions"].as_array().unwrap().contains(&json!(STATELESS)));
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true);
    let check = async |what: &str| {
        let client = scene.proxy.client();
        assert_eq!(client.modern("server/discover", json!({})).await.result(), discovered, "{what}");
        assert_eq!(client.modern("tools/list", json!({})).await.result(), listed, "{what}");
        let mut agent = scene.proxy.stdio_client();
        assert_eq!(agent.modern("server/discover", json!({})).await["result"], discovered, "{what}");
        assert_eq!(agent.modern("tools/list", json!({})).await["result"], listed, "{what}");
        agent.hang_up().await;
    };
    check("with a hub").await;
    scene.disconnect_hub().await;
    check("without one").await;
}

#[tokio::test]
async fn batches_require_a_revision_that_supports_them() {
    let scene = Scene::ready().await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/roots/list_changed" },
        { "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": super::add("milk") },
        { "jsonrpc": "2.0", "id": "x", "method": "no/such" },
    ]);
    for version in SESSIONS {
        let mut agent = scene.proxy.stdio_client();
        agent.initialize(version).await;
        agent.send_line(&batch.to_string()).await;
        let answer = agent.line().await.unwrap();
        if version > "2025-03-26" {
            assert_eq!(answer["error"]["code"], -32600, "{version}: {answer}");
            continue;
        }
        let answers = answer.as_array().unwrap();
        assert_eq!(answers.len(), 3, "{answer}");
        assert_eq!((&answers[0]["id"], &answers[0]["result"]), (&json!(1), &json!({})));
        assert_eq!(answers[1]["result"]["isError"], false, "{answer}");
        assert_eq!(
            (&answers[2]["id"], &answers[2]["error"]["code"]),
            (&json!("x"), &json!(-32601)),
            "{answer}"
        );
    }
}
