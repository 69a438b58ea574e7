//! Two concurrent writers, one of each era, in 64 sessions of as many principals.

use plexus_proto::api::CreatedToken;
use plexus_testkit::faults::Write;
use plexus_testkit::{HubProcess, McpClient};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::crash::records::{calls, contiguous};

const SESSIONS: usize = 64;
/// Calls of one writer in one session.
const CALLS: usize = 5;

/// Writes the markers of one writer into all sessions.
async fn write_all(clients: Vec<McpClient>, era: &'static str) {
    let mut running = JoinSet::new();
    // Sequentially within a session; the sessions run concurrently.
    for (index, client) in clients.into_iter().enumerate() {
        running.spawn(async move {
            for number in 0..CALLS {
                let marker = format!("w{index}.{era}.{number};");
                let meta = json!({ "threadId": format!("thread-{index}") });
                let arguments = match number % 2 {
                    0 => json!({ "action": "add", "text": marker }),
                    _ => {
                        json!({ "action": "append", "section": "log", "content": format!("{marker}\n") })
                    }
                };
                let tool = ["todo", "scratchpad"][number % 2];
                let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
                let answer = match era {
                    "session" => client.call("tools/call", params).await,
                    _ => client.modern("tools/call", params).await,
                };
                assert_eq!(answer.result()["isError"], false, "{answer:?}");
            }
        });
    }
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_do_not_mix_their_sessions() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let mut tokens = Vec::new();
    for index in 0..SESSIONS {
        tokens.push(hub.token(&format!("agent-{index}")).await);
    }
    // The two writers share only the tokens and the names of the conversations.
    let mut session_clients = Vec::new();
    for token in &tokens {
        session_clients.push(hub.mcp(&token.token).initialize("2025-11-25").await.0);
    }
    let other_http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
    let stateless_clients = tokens
        .iter()
        .map(|token| McpClient::new(other_http.clone(), hub.url("/mcp"), &token.token))
        .collect();
    tokio::join!(write_all(session_clients, "session"), write_all(stateless_clients, "stateless"));

    let audit = hub.list("/api/v1/audit", |_| false).await;
    // The audit also has the creation of the tokens.
    let calls: Vec<_> = audit.iter().filter(|call| call["via"] == "mcp").collect();
    assert_eq!(calls.len(), SESSIONS * 2 * CALLS, "calls on record");
    for call in calls {
        let marker = marker_of(&call["arguments"]);
        let token = &tokens[index_of(&marker)];
        assert_eq!(call["actor"], format!("agent:{}", token.name).as_str(), "{call}");
        assert_eq!(call["token_id"], token.jti.to_string().as_str(), "{call}");
        assert_eq!(call["entries"].as_array().map(Vec::len), Some(2), "{call}");
    }
    let report = hub.api("/api/v1/audit/verify").await;
    assert_eq!((&report["ok"], &report["entries"]), (&json!(true), &json!(2 * audit.len())), "{report}");
    for (index, token) in tokens.iter().enumerate() {
        check_session(&hub, index, token).await;
    }
    assert!(hub.terminate().await.success());
}

/// Checks the session that both writers shared, with its owner's token.
async fn check_session(hub: &HubProcess, index: usize, token: &CreatedToken) {
    let page = hub.api_as(&token.token, "/api/v1/sessions").await;
    let [session] = page["items"].as_array().expect("items").as_slice() else {
        panic!("not one session of its own: {page}");
    };
    let actor = format!("agent:{}", token.name);
    assert_eq!(session["owner"], actor.as_str(), "{session}");
    assert_eq!(session["key"], format!("external:testkit:thread-{index}").as_str(), "{session}");

    let events = hub.events(session["id"].as_str().expect("an id")).await;
    contiguous(&events);
    assert_eq!(session["last_seq"], json!(events.len()), "{session}");
    let calls = calls(&events, &actor);
    assert_eq!(calls.len(), 2 * CALLS, "calls in the log");
    assert!(calls.values().all(|counts| *counts == (1, 1)), "{calls:?}");
    for era in ["session", "stateless"] {
        let ended = events.iter().filter(|event| event["kind"] == "tool_call");
        let markers: Vec<_> = ended
            .map(|event| marker_of(&event["payload"]["args"]))
            .filter(|marker| marker.contains(era))
            .collect();
        let expected: Vec<_> = (0..CALLS).map(|number| format!("w{index}.{era}.{number};")).collect();
        assert_eq!(markers, expected, "the order in which one writer wrote");
    }

    let client = hub.mcp(&token.token);
    let thread = json!({ "threadId": format!("thread-{index}") });
    let mut found = Vec::new();
    for (tool, arguments) in
        [("todo", json!({ "action": "list" })), ("scratchpad", json!({ "action": "read", "section": "log" }))]
    {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": thread });
        let result = client.modern("tools/call", params).await.result();
        let text = result["content"][0]["text"].as_str().expect("text").to_owned();
        found.extend(Write::markers(&text).map(str::to_owned));
    }
    assert_eq!(found.len(), 2 * CALLS, "{found:?}");
    assert!(found.iter().all(|marker| index_of(marker) == index), "a foreign marker: {found:?}");
}

/// The marker in the arguments of a call.
fn marker_of(arguments: &Value) -> String {
    let text = arguments["text"].as_str().or(arguments["content"].as_str());
    text.unwrap_or_else(|| panic!("no marker in {arguments}")).trim().to_owned()
}

/// The index of the session that a marker belongs to.
fn index_of(marker: &str) -> usize {
    let number = marker.strip_prefix('w').and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("not a marker: {marker}"))
}
