//! The tools for gateway tests.

use std::time::Duration;

use plexus_testkit::fixture::{Eras, Fixture, FixtureProcess};
use plexus_testkit::{McpClient, SseStream};
use serde_json::{Value, json};

use crate::eras::{at, call, client, session};

const TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
const WATCHED: &str = "test://watched-resource";

/// Waits until the server has counted this many cancelled calls.
async fn cancelled(client: &McpClient, calls: u64) {
    let seen = async {
        while client.tool("describe_call", json!({})).await["structuredContent"]["cancelledCalls"] != calls {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, seen).await.expect("the server sees the cancellation in time");
}

/// Begins a call, and returns after its first progress notification.
async fn slow(client: &McpClient, body: &Value) -> SseStream {
    let mut stream = client.post_stream(body).await;
    let first = stream.message().await.unwrap();
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!(first["params"]["progressToken"], "p", "{first}");
    stream
}

fn slow_params(ms: Option<u64>) -> Value {
    let arguments = ms.map_or(json!({}), |ms| json!({ "ms": ms }));
    json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": "p" } })
}

#[tokio::test]
async fn slow_reports_progress_and_ends_after_its_time() {
    let server = Fixture::new().start().await;
    let (client, body) = client(&server).modern_request(1, "tools/call", slow_params(Some(100)));
    let rest = slow(&client, &body).await.to_end().await;
    let done = rest.last().unwrap();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().starts_with("waited "), "{done}");
    let progress: Vec<f64> =
        rest.iter().filter_map(|message| message["params"]["progress"].as_f64()).collect();
    assert!(progress.is_sorted(), "{progress:?}");
}

#[tokio::test]
async fn slow_is_cancelled_by_a_closed_connection_and_by_a_notification() {
    let server = Fixture::new().start().await;
    let client = client(&server);
    let (stateless, body) = client.modern_request(1, "tools/call", slow_params(None));
    drop(slow(&stateless, &body).await);
    cancelled(&client, 1).await;

    let session = session(&client, "2025-11-25").await;
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": slow_params(None) });
    let _stream = slow(&session, &body).await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(session.post_json(&cancel).await.status, 202);
    cancelled(&client, 2).await;
}

#[tokio::test]
async fn list_and_resource_changes_are_notified_in_both_eras() {
    let server = Fixture::new().start().await;
    let client = client(&server);
    let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": [WATCHED] });
    let (listen, body) =
        client.modern_request("l", "subscriptions/listen", json!({ "notifications": wanted }));
    let mut subscription = listen.post_stream(&body).await;
    let acknowledged = subscription.message().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"], wanted, "{acknowledged}");

    let session = session(&client, "2025-11-25").await;
    let subscribe =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": { "uri": WATCHED } });
    assert_eq!(session.post_stream(&subscribe).await.to_end().await[0]["result"], json!({}));
    let mut stream = session.get_stream().await;

    call(&session, "change_tools", json!({})).await;
    client.tool("touch_resource", json!({ "uri": "test://static-text" })).await;
    client.tool("touch_resource", json!({ "uri": WATCHED })).await;
    for stream in [&mut stream, &mut subscription] {
        let notifications = [stream.message().await.unwrap(), stream.message().await.unwrap()];
        assert_eq!(notifications[0]["method"], "notifications/tools/list_changed", "{notifications:?}");
        assert_eq!(notifications[1]["method"], "notifications/resources/updated", "{notifications:?}");
        assert_eq!(notifications[1]["params"]["uri"], WATCHED, "{notifications:?}");
    }
    let listed = client.modern("tools/list", json!({})).await.result();
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "added_tool"), "{listed}");
    assert_eq!(client.tool("added_tool", json!({})).await["content"][0]["text"], "I was added");
    client.tool("change_tools", json!({})).await;
    assert_eq!(client.modern("tools/call", json!({ "name": "added_tool" })).await.error().1, -32602);
}

#[tokio::test]
async fn described_call_has_headers_and_meta() {
    let server = Fixture::new().start().await;
    let client = client(&server).header("x-trace", "seen");
    let params = json!({ "name": "describe_call", "_meta": { "threadId": "t-1" } });
    let described = client.modern("tools/call", params).await.result()["structuredContent"].clone();
    assert_eq!(described["headers"]["x-trace"], "seen", "{described}");
    assert_eq!(described["headers"]["mcp-name"], "describe_call", "{described}");
    assert_eq!(described["meta"]["threadId"], "t-1", "{described}");
    assert_eq!(described["client"]["name"], "testkit", "{described}");
    assert_eq!(described["process"], std::process::id(), "{described}");
}

#[tokio::test]
async fn big_text_has_the_requested_length() {
    let server = Fixture::new().start().await;
    let big = client(&server).tool("big", json!({ "bytes": 3_000_000 })).await;
    assert_eq!(big["content"][0]["text"].as_str().unwrap().len(), 3_000_000);
}

#[tokio::test]
async fn dropped_server_ends_its_streams_and_stops_listening() {
    let server = Fixture::new().start().await;
    let (address, client) = (server.address(), client(&server));
    let (listen, body) = client.modern_request(1, "subscriptions/listen", json!({ "notifications": {} }));
    let mut subscription = listen.post_stream(&body).await;
    assert!(subscription.message().await.is_some());
    let mut of_session = session(&client, "2025-11-25").await.get_stream().await;
    drop(server);
    assert_eq!((subscription.message().await, of_session.message().await), (None, None));
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn crash_works_only_in_a_separate_process() {
    let server = Fixture::new().start().await;
    assert_eq!(client(&server).tool("crash", json!({})).await["isError"], true);

    let mut process = FixtureProcess::start(Eras::Both).await;
    let client = at(process.url());
    assert_eq!(client.tool("echo", json!({ "text": "a" })).await["content"][0]["text"], "a");
    let (_, body) = client.modern_request(1, "tools/call", json!({ "name": "crash" }));
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let call = http.post(process.url()).body(body.to_string());
    let call = call
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    let call = call.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
    assert!(call.header("mcp-name", "crash").send().await.is_err());
    assert_eq!(process.ended().await.code(), Some(70));
}

#[tokio::test]
async fn run_counts_survive_the_end_of_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new().with_ledger(Some(folder.path().join("ledger")));
    let server = fixture.start().await;
    let params = json!({ "name": "count_runs", "arguments": { "id": "a" } });
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } });
    let mut first = params.clone();
    first["_meta"] = meta.clone();
    let first_result = client(&server).modern("tools/call", first).await.result();
    assert_eq!(first_result["resultType"], "input_required", "{first_result}");
    drop(server);

    let server = fixture.start().await;
    let client = client(&server);
    let runs = client.tool("runs", json!({ "id": "a" })).await;
    assert_eq!(runs["structuredContent"], json!({ "begun": 1, "done": 0 }), "{runs}");
    let mut second = params;
    second["_meta"] = meta;
    second["requestState"] = first_result["requestState"].clone();
    second["inputResponses"] = json!({ "confirm": { "action": "accept", "content": { "ok": true } } });
    let done = client.modern("tools/call", second).await.result();
    assert_eq!(done["structuredContent"], json!({ "begun": 1, "done": 1 }), "{done}");
    let other = client.tool("runs", json!({ "id": "b" })).await;
    assert_eq!(other["structuredContent"], json!({ "begun": 0, "done": 0 }), "{other}");
}

#[tokio::test]
async fn tool_becomes_a_task_for_clients_with_task_support() {
    let server = Fixture::new().start().await;
    let client = client(&server);
    let plain = client.tool("own_task", json!({ "ms": 1 })).await;
    assert_eq!(plain["content"][0]["text"], "done without a task", "{plain}");
    let can = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": can });
    let params = json!({ "name": "own_task", "arguments": {}, "_meta": meta });
    let task = client.modern("tools/call", params).await.result();
    assert_eq!(task["resultType"], "task", "{task}");
    let id = task["taskId"].as_str().unwrap().to_owned();
    let done = async {
        loop {
            let (named, body) =
                client.modern_request(2, "tasks/get", json!({ "taskId": id, "_meta": meta.clone() }));
            let seen = named.header("mcp-name", &id).post_json(&body).await.result();
            if seen["status"] == "completed" {
                return seen;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let done = tokio::time::timeout(TIMEOUT, done).await.expect("an end in time");
    assert_eq!(done["result"]["content"][0]["text"], "done as a task: null", "{done}");
}
