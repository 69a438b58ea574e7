//! A tool that the caller may not use is reported exactly like one that does not exist.

use std::time::{Duration, Instant};

use plexus_testkit::{Answer, McpClient, TestHub};
use serde_json::{Value, json};

use crate::tools::idle;

const SCOPES: &[&str] = &["call:todo.list", "call:tool_call", "call:tool_search", "call:list_tools"];
/// Exists, but [`SCOPES`] do not permit it.
const HIDDEN: &str = "secret_vault";
/// Does not exist; as long as the other name, and as different from visible ones.
const MISSING: &str = "secret_crypt";

/// The answers to every kind of request that can contain a tool name.
async fn query_all(hub: &TestHub, token: &str, name: &str) -> Vec<(String, Answer)> {
    let client = hub.mcp(token);
    let (session, _) = client.initialize("2025-06-18").await;
    let (batches, _) = client.initialize("2025-03-26").await;
    let call = |name: &str| json!({ "name": name, "arguments": { "x": 1 } });
    let through =
        |name: &str| json!({ "name": "tool_call", "arguments": { "name": name, "arguments": { "x": 1 } } });
    let hyphens = name.replace('_', "-");
    let similar = format!("{name}s");
    let mut answers = Vec::new();
    let mut note = |label: &str, answer: Answer| answers.push((label.to_owned(), answer));

    note("modern list", client.modern("tools/list", json!({})).await);
    note("session list", session.call("tools/list", json!({})).await);
    for (how, requested) in [("exact", name), ("with hyphens", &hyphens), ("nearly", &similar)] {
        note(&format!("modern call, {how}"), client.modern("tools/call", call(requested)).await);
        note(&format!("session call, {how}"), session.call("tools/call", call(requested)).await);
        note(&format!("modern tool_call, {how}"), client.modern("tools/call", through(requested)).await);
        note(&format!("session tool_call, {how}"), session.call("tools/call", through(requested)).await);
        note(
            &format!("REST show, {how}"),
            rest(hub, token, "GET", &format!("/api/v1/tools/{requested}")).await,
        );
        note(
            &format!("REST call, {how}"),
            rest(hub, token, "POST", &format!("/api/v1/tools/{requested}/call")).await,
        );
    }
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call(name) }]);
    note("call in a batch", batches.post_json(&batch).await);
    let keyed = json!({ "name": name, "_meta": { "plexus/idempotency-key": "k" } });
    note("call with a key", client.modern("tools/call", keyed).await);
    let streamed = json!({ "name": name, "_meta": { "progressToken": 1 } });
    note("call as a stream", client.modern("tools/call", streamed).await);
    let search = json!({ "name": "tool_search", "arguments": { "query": name } });
    note("search", client.modern("tools/call", search).await);
    let listed = json!({ "name": "list_tools", "arguments": { "prefix": name } });
    note("list_tools", client.modern("tools/call", listed).await);
    note("REST list", rest(hub, token, "GET", "/api/v1/tools").await);
    answers
}

async fn rest(hub: &TestHub, token: &str, method: &str, path: &str) -> Answer {
    let client = hub.mcp(token).at(hub.url(path));
    if method == "GET" { client.get().await } else { client.post(r#"{"arguments":{"x":1}}"#).await }
}

/// Status, headers and body without the name, ids and times.
fn normalized(answer: &Answer, name: &str) -> String {
    let hyphens = name.replace('_', "-");
    let headers = answer.headers.iter().filter(|(key, _)| !["x-request-id", "date"].contains(&key.as_str()));
    let headers: Vec<String> = headers.map(|(key, value)| format!("{key}: {value:?}")).collect();
    let body = answer.body.replace(name, "NAME").replace(&hyphens, "N-AME");
    format!("{} {headers:?} {}", answer.status, without_ids(&body))
}

/// Replaces ids, which are runs of 32 or more hexadecimal digits and hyphens.
fn without_ids(text: &str) -> String {
    let mut plain = String::new();
    let mut run = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_hexdigit() || c == '-' {
            run.push(c);
        } else {
            plain.push_str(if run.len() >= 32 { "ID" } else { &run });
            run.clear();
            plain.push(c);
        }
    }
    plain.trim_end_matches('\0').to_owned()
}

#[tokio::test]
async fn hidden_and_missing_tool_get_identical_answers() {
    let hub = TestHub::start().await;
    hub.registry().add([idle(HIDDEN)]);
    let token = hub.token("narrow", SCOPES).await.token;
    let hidden = query_all(&hub, &token, HIDDEN).await;
    let missing = query_all(&hub, &token, MISSING).await;
    assert_eq!(hidden.len(), missing.len());
    for ((label, hidden), (_, missing)) in hidden.iter().zip(&missing) {
        assert_eq!(normalized(hidden, HIDDEN), normalized(missing, MISSING), "{label}");
        let repeats_name = label.contains("call") || label.contains("show");
        assert!(repeats_name || !hidden.body.contains(HIDDEN), "{label}: {hidden:?}");
    }
    // The hidden tool exists for callers that may see it.
    let admin = hub.admin_token();
    let answers = query_all(&hub, &admin, HIDDEN).await;
    for (label, answer) in answers.iter().filter(|(label, _)| label.contains("list") || label == "search") {
        assert!(answer.body.contains(HIDDEN), "{label}: {answer:?}");
    }
}

#[tokio::test]
async fn adding_a_hidden_tool_changes_no_answer() {
    let hub = TestHub::start().await;
    let token = hub.token("narrow", SCOPES).await.token;
    let before = query_all(&hub, &token, HIDDEN).await;
    let count = status(&hub, &token).await;
    hub.registry().add([idle(HIDDEN), idle(format!("{HIDDEN}s")), idle("tool_searches")]);
    let after = query_all(&hub, &token, HIDDEN).await;
    for ((label, before), (_, after)) in before.iter().zip(&after) {
        assert_eq!(normalized(before, HIDDEN), normalized(after, HIDDEN), "{label}");
    }
    assert_eq!(status(&hub, &token).await, count);
}

async fn status(hub: &TestHub, token: &str) -> Value {
    rest(hub, token, "GET", "/api/v1/status").await.json()["tools"].clone()
}

#[tokio::test]
async fn action_out_of_scope_is_reported_as_missing() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("narrow", SCOPES).await.token);
    let list = client.modern("tools/list", json!({})).await;
    assert!(!list.body.contains("clear"), "{}", list.body);
    for through in [false, true] {
        let ask = async |action: &str| {
            let arguments = json!({ "action": action });
            let params = match through {
                false => json!({ "name": "todo", "arguments": arguments }),
                true => {
                    json!({ "name": "tool_call", "arguments": { "name": "todo", "arguments": arguments } })
                }
            };
            let answer = client.modern("tools/call", params).await;
            normalized(&answer, action)
        };
        let (hidden, missing) = (ask("clear").await, ask("crypt").await);
        assert_eq!(hidden, missing);
        assert!(hidden.contains(r#"expected one of \"list\", got"#), "{hidden}");
    }
}

/// Prints the times without asserting, because a shared machine is too noisy.
#[tokio::test]
async fn hidden_and_missing_tool_take_similar_time() {
    const ROUNDS: usize = 200;
    let hub = TestHub::start().await;
    hub.registry().add([idle(HIDDEN)]);
    let token = hub.token("narrow", SCOPES).await.token;
    let client = hub.mcp(&token);
    let (session, _) = client.initialize("2025-06-18").await;
    println!("{:<20} {:>10} {:>10}  (median of {ROUNDS})", "", "hidden", "missing");
    for label in ["modern call", "session call", "tool_call", "search", "REST show"] {
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            // Alternating, so that other load affects both.
            for (times, name) in times.iter_mut().zip([HIDDEN, MISSING]) {
                let began = Instant::now();
                ask(&hub, &token, &client, &session, label, name).await;
                times.push(began.elapsed());
            }
        }
        let [hidden, missing] = times.map(median);
        println!("{label:<20} {hidden:>10.1?} {missing:>10.1?}");
    }
}

async fn ask(hub: &TestHub, token: &str, client: &McpClient, session: &McpClient, label: &str, name: &str) {
    let call = json!({ "name": name, "arguments": {} });
    let answer = match label {
        "modern call" => client.modern("tools/call", call).await,
        "session call" => session.call("tools/call", call).await,
        "tool_call" => client.modern("tools/call", json!({ "name": "tool_call", "arguments": call })).await,
        "search" => {
            let search = json!({ "name": "tool_search", "arguments": { "query": name } });
            client.modern("tools/call", search).await
        }
        _ => rest(hub, token, "GET", &format!("/api/v1/tools/{name}")).await,
    };
    assert_eq!(answer.status, if label == "REST show" { 404 } else { 200 });
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
