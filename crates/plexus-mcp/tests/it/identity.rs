//! The session that a client's calls belong to.

use plexus_testkit::{McpClient, TestHub};
use serde_json::{Value, json};

struct Client {
    label: &'static str,
    /// The name in the client info; None: no client info.
    name: Option<&'static str>,
    /// An additional member of `_meta`.
    meta: Option<(&'static str, &'static str)>,
    /// The expected keys. `TOKEN` is the name of the token, `MCP` the id of the MCP session.
    modern: &'static str,
    session: &'static str,
}

#[rustfmt::skip]
const CLIENTS: &[Client] = &[
    Client { label: "Codex with a thread",         name: Some("codex-mcp-client"),   meta: Some(("threadId", "t-1")),               modern: "codex:t-1",                     session: "codex:t-1" },
    Client { label: "Claude Code with a session",  name: Some("claude-code"),        meta: Some(("claudecode/sessionId", "s-1")),   modern: "claude:s-1",                    session: "claude:s-1" },
    Client { label: "ChatGPT",                     name: Some("openai-mcp"),         meta: Some(("openai/session", "o-1")),         modern: "external:openai-mcp:o-1",       session: "external:openai-mcp:o-1" },
    Client { label: "VS Code",                     name: Some("Visual Studio Code"), meta: Some(("vscode.conversationId", "v-1")),  modern: "external:Visual_Studio_Code-bf90b52b:v-1", session: "external:Visual_Studio_Code-bf90b52b:v-1" },
    Client { label: "OpenCode",                    name: Some("opencode"),           meta: Some(("ai.opencode/sessionID", "ses_1")), modern: "external:opencode:ses_1",      session: "external:opencode:ses_1" },
    Client { label: "another with a thread",       name: Some("homemade"),           meta: Some(("threadId", "t-1")),               modern: "external:homemade:t-1",         session: "external:homemade:t-1" },
    Client { label: "Codex without a thread",      name: Some("codex-mcp-client"),   meta: None,                                    modern: "external:codex-mcp-client:TOKEN", session: "external:codex-mcp-client:MCP" },
    Client { label: "a client that says nothing",  name: None,                       meta: None,                                    modern: "external:unknown:TOKEN",        session: "external:unknown:MCP" },
    Client { label: "a thread that is no text",    name: Some("homemade"),           meta: Some(("unheard/of", "x")),               modern: "external:homemade:TOKEN",       session: "external:homemade:MCP" },
    Client { label: "a thread with separators",    name: Some("codex-mcp-client"),   meta: Some(("threadId", "a:b\n c/../d")),      modern: "codex:a_b__c/../d-0f8ddbaa",             session: "codex:a_b__c/../d-0f8ddbaa" },
];

fn key(result: &Value) -> &str {
    result["structuredContent"]["key"].as_str().unwrap_or_else(|| panic!("{result}"))
}

async fn modern_key(client: &McpClient, name: Option<&str>, meta: Option<(&str, &str)>) -> String {
    let (client, mut body) = client.modern_request(1, "tools/call", json!({ "name": "session_info" }));
    let members = body["params"]["_meta"].as_object_mut().unwrap();
    match name {
        Some(name) => members["io.modelcontextprotocol/clientInfo"]["name"] = json!(name),
        None => drop(members.remove("io.modelcontextprotocol/clientInfo")),
    }
    if let Some((name, value)) = meta {
        members.insert(name.to_owned(), json!(value));
    }
    key(&client.post_json(&body).await.result()).to_owned()
}

async fn session_key(client: &McpClient, name: Option<&str>, meta: Option<(&str, &str)>) -> String {
    let mut params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    if let Some(name) = name {
        params["clientInfo"] = json!({ "name": name, "version": "1" });
    }
    let opened = client.call("initialize", params).await;
    let id = opened.header("mcp-session-id").unwrap();
    let mut call = json!({ "name": "session_info", "arguments": {} });
    if let Some((name, value)) = meta {
        call["_meta"] = json!({ name: value });
    }
    let result = client.header("mcp-session-id", id).call("tools/call", call).await.result();
    key(&result).replace(id, "MCP")
}

#[tokio::test]
async fn session_key_prefers_the_conversation() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("laptop", &["call:*"]).await.token);
    for case in CLIENTS {
        let expected = case.modern.replace("TOKEN", "laptop");
        assert_eq!(modern_key(&client, case.name, case.meta).await, expected, "{}", case.label);
        assert_eq!(session_key(&client, case.name, case.meta).await, case.session, "{}", case.label);
    }
}

#[tokio::test]
async fn header_names_the_conversation_of_a_client_that_does_not() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("laptop", &["call:*"]).await.token);
    let claude = Some("claude-code");
    let meta = Some(("claudecode/sessionId", "in-meta"));
    let given = client.header("plexus-session", "s-1");
    assert_eq!(modern_key(&given, claude, None).await, "claude:s-1");
    assert_eq!(session_key(&given, claude, None).await, "claude:s-1");
    assert_eq!(modern_key(&given, Some("homemade"), None).await, "external:homemade:s-1");
    // The client's own `_meta` takes precedence over the header.
    assert_eq!(modern_key(&given, claude, meta).await, "claude:in-meta");
    assert_eq!(session_key(&given, claude, meta).await, "claude:in-meta");
    // An empty id in `_meta` does not hide the header.
    assert_eq!(modern_key(&given, claude, Some(("threadId", ""))).await, "claude:s-1");
    // An ambiguous header is refused.
    let params = json!({ "name": "session_info", "arguments": {} });
    for doubtful in [given.another_header("plexus-session", "s-2"), client.header("plexus-session", "sé")] {
        assert_eq!(doubtful.modern("tools/call", params.clone()).await.error(), (400, -32600));
        let (session, _) = doubtful.initialize("2025-11-25").await;
        assert_eq!(session.call("tools/call", params.clone()).await.error(), (400, -32600));
    }
    // The value of an unset variable.
    let unset = client.header("plexus-session", "");
    assert_eq!(modern_key(&unset, claude, None).await, "external:claude-code:laptop");
    assert_eq!(session_key(&unset, claude, None).await, "external:claude-code:MCP");
}

async fn todo(client: &McpClient, thread: &str, arguments: Value) -> Value {
    let params = json!({ "name": "todo", "arguments": arguments, "_meta": { "threadId": thread } });
    client.modern("tools/call", params).await.result()["structuredContent"]["items"].clone()
}

#[tokio::test]
async fn same_thread_of_two_principals_is_two_sessions() {
    let hub = TestHub::start().await;
    let alice = hub.mcp(&hub.token("alice", &["call:*"]).await.token);
    let bob = hub.mcp(&hub.token("bob", &["call:*"]).await.token);
    todo(&alice, "t", json!({ "action": "add", "text": "alice's" })).await;
    assert_eq!(todo(&bob, "t", json!({ "action": "list" })).await, json!([]));
    todo(&bob, "t", json!({ "action": "add", "text": "bob's" })).await;
    let items = todo(&alice, "t", json!({ "action": "list" })).await;
    assert_eq!(items.as_array().unwrap().len(), 1);
    assert_eq!(items[0]["text"], "alice's");
    let sessions = hub.api("/api/v1/sessions").await;
    let mut owners: Vec<&str> =
        sessions["items"].as_array().unwrap().iter().map(|s| s["owner"].as_str().unwrap()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["agent:alice", "agent:bob"]);
}

#[tokio::test]
async fn thread_is_one_session_in_both_eras_and_all_urls() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("alice", &["call:*"]).await.token);
    todo(&client, "t", json!({ "action": "add", "text": "modern" })).await;
    let (session, _) = client.at(hub.url("/mcp/v1/")).initialize("2025-06-18").await;
    let call = json!({ "name": "todo", "arguments": { "action": "list" }, "_meta": { "threadId": "t" } });
    let result = session.call("tools/call", call).await.result();
    assert_eq!(result["structuredContent"]["items"][0]["text"], "modern");
    assert_eq!(todo(&client, "u", json!({ "action": "list" })).await, json!([]), "another thread");
}

#[tokio::test]
async fn idempotency_key_in_meta_replays_the_first_result() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("alice", &["call:*"]).await.token);
    let (session, _) = client.initialize("2025-06-18").await;
    for era in ["modern", "session"] {
        let add = async |text: &str, key: &str| {
            let meta = json!({ "plexus/idempotency-key": format!("{era}-{key}") });
            let params =
                json!({ "name": "todo", "arguments": { "action": "add", "text": text }, "_meta": meta });
            match era {
                "modern" => client.modern("tools/call", params).await.result(),
                _ => session.call("tools/call", params).await.result(),
            }
        };
        let first = add("once", "k").await;
        let again = add("once", "k").await;
        assert_eq!(first["structuredContent"]["items"].as_array().unwrap().len(), 1, "{era}");
        assert_eq!(first["structuredContent"], again["structuredContent"], "{era}");
        assert_eq!(first["_meta"].get("plexus/replayed"), None, "{era}");
        assert_eq!(again["_meta"]["plexus/replayed"], true, "{era}");
        assert_ne!(first["_meta"]["plexus/call-id"], again["_meta"]["plexus/call-id"], "{era}");
        let other = add("something else", "k").await;
        assert_eq!(other["isError"], true, "{era}: the key belongs to another call");
        let second = add("twice", "k2").await;
        assert_eq!(second["structuredContent"]["items"].as_array().unwrap().len(), 2, "{era}");
    }
}
