//! MCP methods, in both eras.

use plexus_testkit::{TestHub, modern_meta};
use reqwest::Method;
use serde_json::{Value, json};

use super::tokens::Tokens;
use super::{Needs, Row};

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");

fn row(
    method: Method,
    path: &str,
    body: Option<Value>,
    headers: &[(&'static str, &str)],
    needs: Needs,
) -> Row {
    let headers = headers.iter().chain([&ACCEPT]).map(|(name, value)| (*name, (*value).to_owned())).collect();
    Row { method, path: path.to_owned(), body, headers, needs }
}

/// A request of revision 2026-07-28.
fn modern(path: &str, method: &str, mut params: Value, needs: Needs) -> Row {
    params["_meta"] = modern_meta();
    let named = ["name", "uri", "taskId"].iter().find_map(|member| params[*member].as_str());
    let name = named.unwrap_or_default().to_owned();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    row(Method::POST, path, Some(body), &headers, needs)
}

fn initialize(path: &str, version: &str, needs: Needs) -> Row {
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    row(Method::POST, path, Some(body), &[], needs)
}

#[tokio::test]
async fn stateless_methods_answer_each_token_as_stated() {
    let hub = TestHub::start().await;
    let tokens = Tokens::of(&hub).await;
    let call = json!({ "name": "todo", "arguments": { "action": "list" } });
    let rows = [
        modern("/mcp", "server/discover", json!({}), Needs::Token(200)),
        modern("/mcp", "tools/list", json!({}), Needs::Token(200)),
        modern("/mcp/", "tools/list", json!({}), Needs::Token(200)),
        modern("/mcp/v1", "tools/list", json!({}), Needs::Token(200)),
        modern("/mcp/v1/", "tools/list", json!({}), Needs::Token(200)),
        modern(
            "/mcp",
            "subscriptions/listen",
            json!({ "notifications": { "toolsListChanged": true } }),
            Needs::Token(200),
        ),
        modern("/mcp", "tools/call", call, Needs::Tool("call:todo")),
        modern("/mcp", "prompts/list", json!({}), Needs::Token(200)),
        modern("/mcp", "resources/list", json!({}), Needs::Token(200)),
        modern("/mcp", "resources/templates/list", json!({}), Needs::Token(200)),
        modern("/mcp", "prompts/get", json!({ "name": "none" }), Needs::Token(200)),
        modern("/mcp", "resources/read", json!({ "uri": "none://" }), Needs::Token(200)),
        modern("/mcp", "tasks/get", json!({ "taskId": "none" }), Needs::Token(400)),
        // An unknown method is unknown to unauthenticated callers too.
        modern("/mcp", "prompts/none", json!({}), Needs::Token(404)),
        initialize("/mcp", "2025-11-25", Needs::Token(200)),
        initialize("/mcp", "2024-11-05", Needs::Token(200)),
    ];
    for row in rows {
        row.check(&hub, &tokens).await;
    }
}

/// A session belongs to the subject that opened it: for another subject's valid token it does not exist.
#[tokio::test]
async fn session_requests_answer_each_token_as_stated() {
    let hub = TestHub::start().await;
    let tokens = Tokens::of(&hub).await;
    let owner = hub.token("owner", &["call:todo"]).await.token;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (session, _) = hub.mcp(&owner).initialize(version).await;
        let id = session.session_id().unwrap();
        let headers = [("mcp-session-id", id), ("mcp-protocol-version", version)];
        let request = |method: &str, params: Value| {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            row(Method::POST, "/mcp", Some(body), &headers, Needs::Token(404))
        };
        let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let call = json!({ "name": "todo", "arguments": { "action": "list" } });
        let rows = [
            request("ping", json!({})),
            request("tools/list", json!({})),
            request("prompts/list", json!({})),
            request("resources/list", json!({})),
            request("resources/read", json!({ "uri": "none://" })),
            request("logging/setLevel", json!({ "level": "error" })),
            request("tools/call", call),
            row(Method::POST, "/mcp", Some(notification), &headers, Needs::Token(404)),
            row(Method::GET, "/mcp", None, &headers, Needs::Token(404)),
            row(Method::DELETE, "/mcp", None, &headers, Needs::Token(404)),
        ];
        for row in &rows {
            row.check(&hub, &tokens).await;
            let expected = match (&row.method, row.body.as_ref().is_some_and(|body| body["id"].is_null())) {
                (&Method::POST, true) => 202,
                (&Method::DELETE, _) => 204,
                _ => 200,
            };
            assert_eq!(row.send(&hub, Some(&owner)).await.status(), expected, "{version} {row:?}");
        }
    }
}

/// In every era, a tool that a token may not use is reported in the same words as a tool that does not exist.
#[tokio::test]
async fn forbidden_tool_looks_like_an_unknown_tool() {
    let hub = TestHub::start().await;
    let tokens = Tokens::of(&hub).await;
    let token = tokens.all_but("call:todo").await;
    let client = hub.mcp(&token);
    let (session, _) = client.initialize("2025-11-25").await;
    for (hidden, missing) in [("todo", "tada")] {
        let call = |name: &str| json!({ "name": name, "arguments": { "action": "list" } });
        let (ours, none) = (
            client.modern("tools/call", call(hidden)).await,
            client.modern("tools/call", call(missing)).await,
        );
        assert_eq!((ours.status, ours.body.replace(hidden, missing)), (none.status, none.body));
        let (ours, none) =
            (session.call("tools/call", call(hidden)).await, session.call("tools/call", call(missing)).await);
        assert_eq!((ours.status, ours.body.replace(hidden, missing)), (none.status, none.body));
        for list in
            [client.modern("tools/list", json!({})).await, session.call("tools/list", json!({})).await]
        {
            let names: Vec<Value> =
                list.result()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
            assert!(names.contains(&json!("scratchpad")) && !names.contains(&json!(hidden)), "{names:?}");
        }
    }
}
