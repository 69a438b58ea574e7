//! A server of one era answers requests of the other like a server that does not know it.

use plexus_testkit::McpClient;
use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use serde_json::{Value, json};

const WITH_SESSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

pub(crate) fn client(server: &HttpFixture) -> McpClient {
    at(&server.url())
}

pub(crate) fn at(url: &str) -> McpClient {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    McpClient::new(http, url.to_owned(), "none is asked for")
}

fn initialize(version: &str) -> Value {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "testkit", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// A client with a session of this revision.
pub(crate) async fn session(client: &McpClient, version: &str) -> McpClient {
    let opened = client.post_stream(&initialize(version)).await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let answers = opened.to_end().await;
    assert_eq!(answers[0]["result"]["protocolVersion"], version, "{answers:?}");
    let client = client.header("mcp-session-id", &id);
    let ready = client.post_json(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(ready.status, 202, "{ready:?}");
    client
}

/// The answer to a call in a session.
pub(crate) async fn call(client: &McpClient, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let answers = client.post_stream(&call).await.to_end().await;
    answers.last().expect("an answer")["result"].clone()
}

#[tokio::test]
async fn session_server_supports_exactly_the_session_revisions() {
    let server = Fixture::new().only(Eras::Sessions).start().await;
    let client = client(&server);
    for version in WITH_SESSIONS {
        let client = session(&client, version).await;
        assert_eq!(call(&client, "echo", json!({ "text": "a" })).await["content"][0]["text"], "a");
        assert_eq!(client.delete().await.status, 202);
    }
    for method in ["server/discover", "tools/list"] {
        let refused = client.modern(method, json!({})).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        // The answer does not reveal a newer era, so a client of both eras falls back.
        assert!(serde_json::from_str::<Value>(&refused.body).is_err(), "{refused:?}");
    }
}

#[tokio::test]
async fn server_of_one_revision_negotiates_no_later_one() {
    let server = Fixture::new().only(Eras::Revision("2025-06-18")).start().await;
    let client = client(&server);
    let opened = client.post_stream(&initialize("2025-11-25")).await.to_end().await;
    assert_eq!(opened[0]["result"]["protocolVersion"], "2025-06-18", "{opened:?}");
    session(&client, "2025-03-26").await;
    assert_eq!(client.modern("server/discover", json!({})).await.status, 400);
    assert_eq!("2025-06-18".parse::<Eras>(), Ok(Eras::Revision("2025-06-18")));
    assert!("2026-07-28".parse::<Eras>().is_err(), "that one has no sessions");
}

#[tokio::test]
async fn stateless_server_opens_no_session() {
    let server = Fixture::new().only(Eras::Stateless).start().await;
    let client = client(&server);
    assert_eq!(client.tool("echo", json!({ "text": "a" })).await["content"][0]["text"], "a");
    for version in WITH_SESSIONS {
        let refused = client.post_json(&initialize(version)).await;
        assert!(refused.body.contains("-32022") && refused.body.contains("2026-07-28"), "{refused:?}");
        assert!(refused.header("mcp-session-id").is_none(), "{refused:?}");
    }
    let without_meta =
        client.header("mcp-protocol-version", "2025-11-25").call("tools/list", json!({})).await;
    assert_eq!(without_meta.status, 400, "{without_meta:?}");
    assert_eq!(client.get().await.status, 405);
    assert_eq!(client.delete().await.status, 405);
}

#[tokio::test]
async fn server_of_both_eras_selects_the_era_by_request() {
    let server = Fixture::new().start().await;
    let client = client(&server);
    let discovered = client.modern("server/discover", json!({})).await.result();
    let versions: Vec<&str> = WITH_SESSIONS.into_iter().chain(["2026-07-28"]).collect();
    assert_eq!(discovered["supportedVersions"], json!(versions), "{discovered}");
    let described = client.tool("describe_call", json!({})).await;
    assert_eq!(described["structuredContent"]["protocolVersion"], "2026-07-28", "{described}");
    let described = call(&session(&client, "2025-06-18").await, "describe_call", json!({})).await;
    assert_eq!(described["structuredContent"]["protocolVersion"], "2025-06-18", "{described}");
    let other_path = client.at(server.url().replace("/mcp", "/.well-known/oauth-protected-resource/mcp"));
    assert_eq!(other_path.get().await.status, 404);
}
