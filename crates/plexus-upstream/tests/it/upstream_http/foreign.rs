//! Odd but valid JSON of a server, on its way through the hub to strict clients.

use plexus_testkit::{McpClient, Pinned, TestHub, sdk_script};
use plexus_tools::QueuedWrite;
use serde_json::{Value, json};

use super::in_time;
use super::scripted::{ReceivedRequest, ScriptedServer, Steps, answer, session_era};

const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Tools with everything that makes strict clients reject a whole list.
fn sloppy_tools() -> Value {
    json!({ "tools": [
        {
            "name": "sloppy",
            "title": 7,
            "annotations": { "title": 1, "readOnlyHint": "yes", "destructiveHint": null, "idempotentHint": true },
            "icons": [1],
            "execution": { "taskSupport": 1 },
            "_meta": [],
            "inputSchema": { "required": null, "properties": { "x": true, "y": false } },
            "outputSchema": { "type": "array", "items": { "type": "number" } },
        },
        { "name": "listed", "inputSchema": { "type": "object" }, "outputSchema": {} },
        { "name": "unusable", "inputSchema": { "type": "string" } },
        {
            "name": "sound",
            "inputSchema": { "type": "object" },
            "_meta": { "theirs": 1, "plexus/bufferable": true, "plexus/placement": "node", "plexus/new": {} },
        },
    ] })
}

/// The tools' results: data that is not an object, numbers that a reader would round, and a `_meta`.
const RESULT: &str = r#"{
  "content": [ { "type": "text",
    "text": "done" } ],
  "structuredContent": [ 1,
    2.50 ],
  "_meta": { "theirs": { "z": 12345678901234567890123, "a": 1 },
    "plexus/call-id": "forged", "io.modelcontextprotocol/serverInfo": "forged" }
}"#;

/// Prints its JSON over several lines, as some servers do.
fn pretty(request: &ReceivedRequest) -> Steps {
    let result = match request.message_method() {
        "tools/list" => serde_json::to_string_pretty(&sloppy_tools()).unwrap(),
        "tools/call" => RESULT.to_owned(),
        _ => return session_era(request),
    };
    let body =
        format!("{{\r\n\"jsonrpc\": \"2.0\",\r\"id\": {},\n\"result\": {result}\n}}", request.body["id"]);
    answer(200, "content-type: application/json\r\n", &body)
}

async fn hub_with_odd_server() -> (TestHub, ScriptedServer, String) {
    let server = ScriptedServer::start(pretty).await;
    let hub = TestHub::start().await;
    let upstream =
        in_time(hub.add_upstream("odd", &json!({ "url": server.url(), "allow_private": true }))).await;
    let warned = upstream.warnings.iter().any(|warning| warning.contains("\"unusable\""));
    assert!(warned, "{:?}", upstream.warnings);
    let token = hub.token("agent", &["call:*"]).await.token;
    (hub, server, token)
}

const TOOL: &str = "mcp__odd__sloppy";

/// Expectations for every client, however strict.
fn check(report: &Value, revision: &str) {
    let tools: Vec<_> = report["tools"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let odd: Vec<_> = tools.iter().copied().filter(|name| name.starts_with("mcp__odd__")).collect();
    assert_eq!(odd, ["mcp__odd__listed", TOOL, "mcp__odd__sound"], "{revision}: {report}");
    assert!(tools.contains(&"todo"), "{revision}: the rest of the list is there: {report}");
    let result = &report["result"];
    assert_eq!(result["content"][0]["text"], "done", "{revision}: {report}");
    assert_eq!(result["_meta"]["theirs"]["a"], 1, "{revision}: {report}");
}

#[tokio::test]
async fn typescript_1_lists_and_calls_tools_of_a_sloppy_server() {
    let Some(sdk) = Pinned::npm("sdk-1").await else { return };
    let (hub, _server, token) = hub_with_odd_server().await;
    let script = sdk_script("node/client_v1.mjs");
    let mut script = sdk.script(&script, &[&hub.url("/mcp"), "legacy", TOOL], &token);
    check(&script.line().await, "legacy");
    script.end().await;
}

#[tokio::test]
async fn typescript_2_lists_and_calls_tools_of_a_sloppy_server() {
    let Some(sdk) = Pinned::npm("sdk-2").await else { return };
    let (hub, _server, token) = hub_with_odd_server().await;
    let script = sdk_script("node/client_v2.mjs");
    for revision in ["2026-07-28"].into_iter().chain(REVISIONS) {
        let mut script = sdk.script(&script, &[&hub.url("/mcp"), revision, TOOL], &token);
        let report = script.line().await;
        check(&report, revision);
        let data = if revision == "2026-07-28" { json!([1, 2.5]) } else { Value::Null };
        assert_eq!(report["result"]["structuredContent"], data, "{revision}: {report}");
        script.end().await;
    }
}

/// A definition as the client gets it.
async fn definition(client: &McpClient, revision: Option<&str>, tool: &str) -> Value {
    let list = match revision {
        None => client.modern("tools/list", json!({})).await.result(),
        Some(revision) => client.initialize(revision).await.0.call("tools/list", json!({})).await.result(),
    };
    let tools = list["tools"].as_array().unwrap();
    tools.iter().find(|one| one["name"] == tool).unwrap_or_else(|| panic!("no {tool}: {list}")).clone()
}

#[tokio::test]
async fn non_object_output_schemas_depend_on_the_revision() {
    let (hub, _server, token) = hub_with_odd_server().await;
    let client = hub.mcp(&token);
    for revision in REVISIONS {
        for tool in [TOOL, "mcp__odd__listed"] {
            let listed = definition(&client, Some(revision), tool).await;
            assert_eq!(listed["outputSchema"], Value::Null, "{revision}: {listed}");
        }
    }
    let listed = definition(&client, None, TOOL).await;
    assert_eq!(listed["outputSchema"]["type"], "array", "{listed}");
    let schema = json!({ "type": "object", "properties": { "x": {}, "y": { "not": {} } } });
    assert_eq!(listed["inputSchema"], schema, "{listed}");
}

#[tokio::test]
async fn reserved_meta_of_a_tool_is_removed() {
    let (hub, _server, token) = hub_with_odd_server().await;
    let client = hub.mcp(&token);
    for revision in [None].into_iter().chain(REVISIONS.map(Some)) {
        let listed = definition(&client, revision, "mcp__odd__sound").await;
        assert_eq!(listed["_meta"], json!({ "theirs": 1 }), "{revision:?}: {listed}");
        assert_eq!(definition(&client, revision, TOOL).await.get("_meta"), None, "{revision:?}");
    }
}

/// Answers like the local proxy for a native tool whose write it queues.
fn queueing(request: &ReceivedRequest) -> Steps {
    let queued = QueuedWrite::new("todo", "key-1", "kept until the hub is back");
    let tools = plexus_tools::native::tools();
    let todo = tools.iter().find(|tool| tool.name() == "todo").unwrap().spec();
    let result = match request.message_method() {
        "tools/list" => json!({ "tools": [
            { "name": "todo", "inputSchema": { "type": "object" }, "outputSchema": todo.output_schema },
        ] }),
        "tools/call" => json!({ "content": [], "structuredContent": queued }),
        _ => return session_era(request),
    };
    let body = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result });
    answer(200, "content-type: application/json\r\n", &body.to_string())
}

/// They validate a result against its tool's schema, and reject a mismatch.
#[tokio::test]
async fn validating_clients_accept_a_queued_write() {
    for (set, script, mode) in
        [("sdk-1", "node/client_v1.mjs", "legacy"), ("sdk-2", "node/client_v2.mjs", "2026-07-28")]
    {
        let Some(sdk) = Pinned::npm(set).await else { return };
        let server = ScriptedServer::start(queueing).await;
        let hub = TestHub::start().await;
        let config = json!({ "url": server.url(), "allow_private": true });
        in_time(hub.add_upstream("keeping", &config)).await;
        let token = hub.token("agent", &["call:*"]).await.token;
        let arguments = [&*hub.url("/mcp"), mode, "mcp__keeping__todo"];
        let mut script = sdk.script(&sdk_script(script), &arguments, &token);
        let report = script.line().await;
        assert_eq!(report["result"]["structuredContent"]["idempotency_key"], "key-1", "{set}: {report}");
        script.end().await;
    }
}

#[tokio::test]
async fn line_breaks_in_results_do_not_break_streams() {
    let (hub, _server, token) = hub_with_odd_server().await;
    let client = hub.mcp(&token);
    let params = || json!({ "name": TOOL, "arguments": {}, "_meta": { "progressToken": "mine" } });
    let (streaming, request) = client.modern_request(1, "tools/call", params());
    let answer = in_time(streaming.post_stream(&request)).await.message().await.unwrap();
    assert_eq!(answer["result"]["structuredContent"], json!([1, 2.5]), "{answer}");
    for revision in REVISIONS {
        let (client, _) = client.initialize(revision).await;
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params() });
        let mut stream = in_time(client.post_stream(&request)).await;
        let answer = in_time(async {
            loop {
                let message = stream.message().await.unwrap();
                if message["id"] == 7 {
                    return message;
                }
            }
        })
        .await;
        let result = &answer["result"];
        assert_eq!(result["content"][0]["text"], "done", "{revision}: {answer}");
        assert_eq!(result["structuredContent"], Value::Null, "{revision}: {answer}");
    }
}

#[tokio::test]
async fn result_meta_is_passed_on_without_reserved_keys() {
    let (hub, _server, token) = hub_with_odd_server().await;
    let answer = hub.mcp(&token).tool(TOOL, json!({})).await;
    let meta = answer["_meta"].as_object().unwrap();
    assert_eq!(meta["theirs"]["a"], 1, "{answer}");
    assert_ne!(meta["plexus/call-id"], "forged", "{answer}");
    assert_ne!(meta["io.modelcontextprotocol/serverInfo"], "forged", "{answer}");
}

#[tokio::test]
async fn replay_equals_the_first_result_exactly() {
    let (hub, server, token) = hub_with_odd_server().await;
    let client = hub.mcp(&token);
    let call = async || {
        let params = json!({ "name": TOOL, "arguments": {}, "_meta": { "plexus/idempotency-key": "k" } });
        let text = client.modern("tools/call", params).await.body;
        let start = text.find("\"content\"").unwrap();
        let end = text.find("\"isError\"").unwrap();
        let position = text.find("\"theirs\"").unwrap();
        (text[start..end].to_owned(), text[position..].to_owned())
    };
    let first = call().await;
    assert!(first.0.contains("2.50") && first.1.contains("12345678901234567890123"), "{first:?}");
    assert_eq!(call().await, first);
    assert_eq!(server.count("tools/call"), 1);
}
