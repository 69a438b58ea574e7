//! Profiles: the tools that agents with different profiles list and call, and notification of changes.

use std::sync::Arc;

use plexus_proto::tool_name;
use plexus_testkit::{McpClient, TestHub};
use plexus_tools::{Access, Outcome, Placement, Tool, ToolOutput, ToolSpec, UpstreamTool};
use serde_json::{Value, json};

/// A tool of a server that does not exist. It returns its own name.
fn upstream(server: &str, tool: &str, group: &str) -> Tool {
    let name = tool_name::canonical(server, tool);
    let placement = UpstreamTool { groups: vec![group.to_owned()], ..UpstreamTool::new(server, tool) };
    let spec = ToolSpec {
        name: name.clone().into(),
        input_schema: json!({ "type": "object" }),
        placement: Placement::Upstream(Arc::new(placement)),
        ..ToolSpec::hub("", "Upstream", "Of another server.", Access::READ)
    };
    Tool::upstream(
        spec,
        Arc::new(move |_, _| {
            let name = name.clone();
            Box::pin(async move { Ok(Outcome::Ready(ToolOutput::new(name, &json!({})))) })
        }),
    )
}

fn write(hub: &TestHub, id: &str, config: &Value) {
    let folder = hub.data_dir().join("profiles").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    // Replaced atomically, as by an editor.
    let next = folder.join("config.json.next");
    std::fs::write(&next, config.to_string()).unwrap();
    std::fs::rename(next, folder.join("config.json")).unwrap();
}

async fn agent(hub: &TestHub, profile: &str) -> McpClient {
    let params = json!({ "kind": "agent", "name": profile, "profile": profile });
    let request = hub.http().post(hub.url("/api/v1/tokens")).bearer_auth(hub.admin_token()).json(&params);
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    hub.mcp(answer["token"].as_str().unwrap_or_else(|| panic!("no token: {answer}")))
}

async fn listed(client: &McpClient) -> Vec<String> {
    let list = client.modern("tools/list", json!({})).await.result();
    let tools = list["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A hub with a server behind it and two profiles.
async fn hub() -> TestHub {
    let hub = TestHub::start().await;
    hub.registry().set_upstream(
        "github",
        [upstream("github", "create_issue", "write"), upstream("github", "list_issues", "read")],
    );
    hub.registry().set_upstream("files", [upstream("files", "read", "read")]);
    write(
        &hub,
        "writer",
        &json!({ "enabled_tools": ["todo", "mcp__files__read"], "mcp_servers": { "github": ["write"] } }),
    );
    write(&hub, "reader", &json!({ "enabled_tools": ["scratchpad"], "mcp_servers": { "github": ["read"] } }));
    hub.reload_profiles();
    hub
}

#[tokio::test]
async fn profiles_list_and_call_different_tools() {
    let hub = hub().await;
    let (writer, reader) = (agent(&hub, "writer").await, agent(&hub, "reader").await);
    let expected = [
        (&writer, ["mcp__files__read", "mcp__github__create_issue", "todo"].as_slice()),
        (&reader, ["mcp__github__list_issues", "scratchpad"].as_slice()),
    ];
    for (client, tools) in expected {
        assert_eq!(listed(client).await, tools);
        let (session, _) = client.initialize("2025-06-18").await;
        let list = session.call("tools/list", json!({})).await.result();
        let names: Vec<&str> =
            list["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
        assert_eq!(names, tools);
        for tool in tools.iter().filter(|tool| tool.starts_with("mcp__")) {
            let result = client.tool(tool, json!({})).await;
            assert_eq!(result["content"][0]["text"], *tool, "{result}");
        }
    }
    // A tool of the other profile is reported like a missing one.
    for (client, hidden, absent) in [
        (&writer, "mcp__github__list_issues", "mcp__github__list_issuez"),
        (&reader, "mcp__files__read", "mcp__files__reed"),
        (&reader, "todo", "tudu"),
    ] {
        let ask = async |name: &str| {
            let answer = client.modern("tools/call", json!({ "name": name, "arguments": {} })).await;
            (answer.status, answer.json()["error"].to_string().replace(name, "NAME"))
        };
        assert_eq!(ask(hidden).await, ask(absent).await, "{hidden}");
    }
}

#[tokio::test]
async fn changed_profile_is_notified_as_list_changed() {
    let hub = hub().await;
    let (writer, reader) = (agent(&hub, "writer").await, agent(&hub, "reader").await);
    let listen = async |client: &McpClient| {
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let (client, body) = client.modern_request(1, "subscriptions/listen", params);
        let mut stream = client.post_stream(&body).await;
        assert_eq!(stream.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
        stream
    };
    let (mut of_writer, mut of_reader) = (listen(&writer).await, listen(&reader).await);
    // The hub notices the change without a request.
    write(&hub, "reader", &json!({ "enabled_tools": ["scratchpad", "todo"] }));
    assert_eq!(of_reader.message().await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(listed(&reader).await, ["scratchpad", "todo"]);
    assert_eq!(of_writer.until_quiet().await, Vec::<Value>::new(), "its profile did not change");
    // A broken file shows nothing.
    write(&hub, "reader", &json!({ "enabled_tools": "todo" }));
    assert_eq!(of_reader.message().await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(listed(&reader).await, Vec::<String>::new());
}

#[tokio::test]
async fn rest_expands_a_profile_for_the_requesting_token() {
    let hub = hub().await;
    write(&hub, "broken", &json!({ "enabled_tool": [], "budgets": {} }));
    write(
        &hub,
        "vague",
        &json!({ "enabled_tools": ["todos"], "subagent_tools": ["mcp__github__create_issue"] }),
    );
    hub.reload_profiles();
    let page = hub.api("/api/v1/profiles?limit=200").await;
    let of = |id: &str| page["items"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone();
    let writer = of("writer");
    assert_eq!(writer["enabled_tools"], json!(["mcp__files__read", "mcp__github__create_issue", "todo"]));
    // Tools from `mcp_servers` are for the agent itself only.
    assert_eq!(writer["subagent_tools"], json!(["mcp__files__read", "todo"]));
    assert_eq!(
        writer["mcp_servers"],
        json!([{ "server": "github", "tools": ["mcp__github__create_issue"] }])
    );
    assert_eq!((&writer["usable"], &of("secretary")["default"]), (&json!(true), &json!(true)));
    let broken = of("broken");
    assert_eq!(
        (&broken["usable"], broken["problems"].as_array().unwrap().len()),
        (&json!(false), 2),
        "{broken}"
    );
    assert_eq!(broken["enabled_tools"], json!([]));
    let warnings = of("vague")["warnings"].to_string();
    assert!(
        warnings.contains("did you mean todo?")
            && warnings.contains("does not show mcp__github__create_issue"),
        "{warnings}"
    );

    let detail = hub.api("/api/v1/profiles/discuss").await;
    assert!(detail["system_prompt"].as_str().unwrap().starts_with("You are"), "{detail}");

    // A token with fewer scopes sees fewer tools.
    let token = hub.token("narrow", &["call:todo", "read:profiles"]).await.token;
    let answer = hub.http().get(hub.url("/api/v1/profiles/writer")).bearer_auth(token).send().await.unwrap();
    let expanded: Value = answer.json().await.unwrap();
    assert_eq!(expanded["enabled_tools"], json!(["todo"]));
    assert!(!expanded.to_string().contains("mcp__github__"), "{expanded}");
}

#[tokio::test]
async fn token_for_a_missing_profile_is_refused_with_the_available_ones() {
    let hub = hub().await;
    let params = json!({ "kind": "agent", "name": "x", "profile": "riter" });
    let request = hub.http().post(hub.url("/api/v1/tokens")).bearer_auth(hub.admin_token()).json(&params);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 400);
    let body: Value = answer.json().await.unwrap();
    let message = body["message"].as_str().unwrap();
    assert!(message.starts_with("there is no profile riter; available profiles: developer, "), "{message}");
    assert!(message.ends_with("tool_developer, writer"), "{message}");
}

#[tokio::test]
async fn thin_profile_lists_pinned_tools_and_explains_search() {
    let hub = hub().await;
    let thin =
        |pinned: &str| json!({ "enabled_tools": ["todo", "mcp__*"], "thin": true, "pinned": [pinned] });
    write(&hub, "pinned", &thin("mcp__github__create_issue"));
    write(&hub, "thin", &thin("mcp__files__read"));
    hub.reload_profiles();
    // A server is also named if one of its tools is listed and others are not.
    let pinned = agent(&hub, "pinned").await;
    let discovered = pinned.modern("server/discover", json!({})).await.result();
    assert!(
        discovered["instructions"]
            .as_str()
            .unwrap()
            .contains("These servers have more tools: files, github."),
        "{discovered}"
    );
    let client = agent(&hub, "thin").await;
    assert_eq!(listed(&client).await, ["mcp__files__read", "tool_call", "tool_search"]);
    let discovered = client.modern("server/discover", json!({})).await.result();
    let text = discovered["instructions"].as_str().unwrap().to_owned();
    assert!(
        text.contains("tool_search") && text.contains("These servers have more tools: github."),
        "{text}"
    );
    let search_result = client.tool("tool_search", json!({ "query": "create an issue" })).await;
    assert_eq!(
        search_result["structuredContent"]["tools"][0]["name"], "mcp__github__create_issue",
        "{search_result}"
    );
    let called = client.tool("tool_call", json!({ "name": "mcp__github__create_issue" })).await;
    assert_eq!(called["content"][0]["text"], "mcp__github__create_issue", "{called}");
    // Also by its own name: an unlisted tool is not forbidden.
    let called = client.tool("mcp__github__list_issues", json!({})).await;
    assert_eq!(called["content"][0]["text"], "mcp__github__list_issues", "{called}");
    let shown = hub.api("/api/v1/profiles/thin").await;
    assert_eq!((&shown["thin"], &shown["pinned"]), (&json!(true), &json!(["mcp__files__read"])));

    let params = json!({ "notifications": { "toolsListChanged": true } });
    let (listening, body) = client.modern_request(1, "subscriptions/listen", params);
    let mut stream = listening.post_stream(&body).await;
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    write(&hub, "thin", &json!({ "enabled_tools": ["todo", "mcp__*"] }));
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(listed(&client).await.len(), 4);
    let discovered = client.modern("server/discover", json!({})).await.result();
    assert!(!discovered["instructions"].as_str().unwrap().contains("tool_search"), "{discovered}");
}
