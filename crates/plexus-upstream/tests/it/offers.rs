//! Resources and prompts of servers behind the hub: who sees them, and by which names.

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_testkit::{ClientRevision, InteractiveClient, TestHub};
use serde_json::{Value, json};

async fn hub_with(file: Value) -> (TestHub, HttpFixture) {
    let (hub, server) = (TestHub::start().await, Fixture::new().only(Eras::Stateless).start().await);
    let mut file = file;
    file["url"] = json!(server.url());
    hub.add_upstream("wiki", &file).await;
    let admin = connect(&hub, &hub.admin_token()).await;
    until(&hub, async || {
        !list(&admin, "prompts").await.is_empty() && !list(&admin, "resources").await.is_empty()
    })
    .await;
    (hub, server)
}

async fn connect(hub: &TestHub, token: &str) -> InteractiveClient {
    InteractiveClient::connect(hub, token, ClientRevision::Stateless, json!({})).await
}

/// Names of prompts, or URIs of resources.
async fn list(client: &InteractiveClient, list_kind: &str) -> Vec<String> {
    let list = client.request(&format!("{list_kind}/list"), json!({})).await.expect("a list");
    let key = if list_kind == "prompts" { "name" } else { "uri" };
    let entries = list[list_kind].as_array().expect("entries").iter();
    entries.map(|entry| entry[key].as_str().expect("a key").to_owned()).collect()
}

/// Waits for something that comes with a change of a server.
async fn until(hub: &TestHub, holds: impl AsyncFn() -> bool) {
    let mut changes = hub.upstreams().changes();
    let wait = async {
        while !holds().await {
            changes.changed().await.expect("the hub runs");
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), wait).await.expect("in time");
}

#[tokio::test]
async fn offers_are_not_listed_as_tools() {
    let (hub, _server) = hub_with(json!({})).await;
    let client = connect(&hub, &hub.token("ann", &["call:*"]).await.token).await;
    let tools = client.request("tools/list", json!({})).await.unwrap();
    assert!(!tools.to_string().contains("mcp__wiki.resources"), "{tools}");
    let search_result = client.tool_text("tool_search", json!({ "query": "resources of wiki" })).await;
    assert!(!search_result.contains("mcp__wiki.resources"), "{search_result}");
    let uri = json!({ "uri": "test://static-text" });
    let named = client.tool("mcp__wiki.resources", uri.clone()).await.unwrap_err();
    assert_eq!(named.code, -32602, "{named:?}");
    let indirect = client.tool("tool_call", json!({ "name": "mcp__wiki.resources", "arguments": uri })).await;
    assert_eq!(indirect.unwrap_err().code, -32602);
    let rest = hub.api("/api/v1/tools").await;
    assert!(!rest.to_string().contains("mcp__wiki.resources"), "{rest}");
}

#[tokio::test]
async fn profile_filters_resources_and_prompts() {
    let (hub, _server) = hub_with(json!({})).await;
    let nothing: [usize; 2] = [0, 0];
    for (id, config, visible) in [
        ("all", json!({ "mcp_servers": { "wiki": ["*"] } }), [3, 5]),
        ("groups", json!({ "mcp_servers": { "wiki": ["read"] } }), nothing),
        ("tools", json!({ "enabled_tools": ["mcp__wiki__*"] }), nothing),
        ("named", json!({ "enabled_tools": ["todo", "mcp__wiki.prompts"] }), [0, 5]),
        ("globs", json!({ "enabled_tools": ["mcp__*"] }), [3, 5]),
        ("none", json!({ "enabled_tools": ["todo"] }), nothing),
    ] {
        let folder = hub.data_dir().join("profiles").join(id);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        hub.reload_profiles();
        let params = json!({ "kind": "agent", "name": id, "profile": id });
        let request = hub.http().post(hub.url("/api/v1/tokens")).bearer_auth(hub.admin_token()).json(&params);
        let token: Value = request.send().await.unwrap().json().await.unwrap();
        let client = connect(&hub, token["token"].as_str().unwrap()).await;
        let counts = [list(&client, "resources").await.len(), list(&client, "prompts").await.len()];
        assert_eq!(counts, visible, "{id}");
        let read = client.request("resources/read", json!({ "uri": "test://static-text" })).await;
        assert_eq!(read.is_ok(), visible[0] > 0, "{id}: {read:?}");
        let got = client.request("prompts/get", json!({ "name": "mcp__wiki__test_simple_prompt" })).await;
        assert_eq!(got.is_ok(), visible[1] > 0, "{id}: {got:?}");
    }
}

#[tokio::test]
async fn a_prompt_may_go_by_its_own_name() {
    let (hub, _server) = hub_with(json!({ "naming": "bare" })).await;
    let client = connect(&hub, &hub.token("ann", &["call:*"]).await.token).await;
    assert!(list(&client, "prompts").await.contains(&"test_simple_prompt".to_owned()));
    for name in ["test_simple_prompt", "mcp__wiki__test_simple_prompt"] {
        let got = client.request("prompts/get", json!({ "name": name })).await.unwrap();
        assert_eq!(got["messages"][0]["content"]["text"], "This is a simple prompt for testing.", "{name}");
    }
}

#[tokio::test]
async fn what_a_server_offers_goes_with_it() {
    let (hub, server) = hub_with(json!({})).await;
    let client = connect(&hub, &hub.token("ann", &["call:*"]).await.token).await;
    let mut news = client.listen(&["prompts", "resources"], &[]).await;
    hub.write_upstream("wiki", &json!({ "url": server.url(), "enabled": false }));
    hub.upstreams().reload().await;
    news.next_of("notifications/prompts/list_changed").await;
    news.next_of("notifications/resources/list_changed").await;
    assert_eq!((list(&client, "prompts").await.len(), list(&client, "resources").await.len()), (0, 0));
    let error = client.request("resources/read", json!({ "uri": "test://static-text" })).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32602, "Resource not found: test://static-text"));
}

#[tokio::test]
async fn reads_are_recorded_with_what_was_read() {
    let (hub, _server) = hub_with(json!({})).await;
    let client = connect(&hub, &hub.token("ann", &["call:*"]).await.token).await;
    client.request("resources/read", json!({ "uri": "test://static-text" })).await.unwrap();
    client.request("prompts/get", json!({ "name": "mcp__wiki__test_simple_prompt" })).await.unwrap();
    client.request("resources/read", json!({ "uri": "test://nowhere" })).await.unwrap_err();
    let audit = hub.api("/api/v1/audit?limit=10").await;
    let calls: Vec<(&str, &str)> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| Some((item["tool"].as_str()?, item["outcome"].as_str()?)))
        .filter(|(tool, _)| tool.starts_with("mcp__wiki."))
        .collect();
    let expected = [
        ("mcp__wiki.resources", "invalid_arguments"),
        ("mcp__wiki.prompts", "ok"),
        ("mcp__wiki.resources", "ok"),
    ];
    assert_eq!(calls, expected);
}

/// A hub is a server too: what it serves may come from another one.
#[tokio::test]
async fn a_hub_behind_a_hub_passes_on_what_the_other_does() {
    let (inner, _server) = hub_with(json!({})).await;
    let second = Fixture::new().only(Eras::Sessions).start().await;
    inner.add_upstream("docs", &json!({ "url": second.url() })).await;
    let token = inner.token("outer", &["call:*"]).await.token;
    let outer = TestHub::start().await;
    let file = json!({ "url": inner.url("/mcp"), "headers": { "Authorization": format!("Bearer {token}") } });
    outer.add_upstream("inner", &file).await;
    let client = connect(&outer, &outer.token("ann", &["call:*"]).await.token).await;
    let twice = "plexus+mcp://inner/plexus+mcp://wiki/test://static-text";
    until(&outer, async || list(&client, "resources").await.iter().any(|uri| uri == twice)).await;
    let read = client.request("resources/read", json!({ "uri": twice })).await.unwrap();
    assert_eq!(read["contents"][0]["uri"], twice, "{read}");
    let prompts = list(&client, "prompts").await;
    let prompt =
        prompts.iter().find(|name| name.contains("wiki") && name.contains("simple")).expect("a prompt");
    let got = client.request("prompts/get", json!({ "name": prompt })).await.unwrap();
    assert_eq!(got["messages"][0]["content"]["text"], "This is a simple prompt for testing.");
}
