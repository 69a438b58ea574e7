//! Information about the servers for models and people, and who sees it.

use plexus_proto::api::{Upstream, UpstreamState};
use plexus_testkit::fixture::Eras;
use plexus_testkit::{McpClient, TestHub, stdio_fixture};
use serde_json::{Value, json};

use super::script::{Script, folder, touch};
use super::{agent, fast_polling_timing, fast_timing, metrics, signal, text};

async fn servers(client: &McpClient) -> Vec<Value> {
    let result = client.tool("mcp_status", json!({})).await;
    result["structuredContent"]["servers"].as_array().unwrap_or_else(|| panic!("{result}")).clone()
}

async fn two_servers(hub: &TestHub) {
    hub.add_upstream("fix", &stdio_fixture(Eras::Sessions)).await;
    let mut script = Script::answering("say done").install(hub, "s");
    script["instructions"] = json!("Use it for work only.");
    hub.add_upstream("s", &script).await;
    hub.write_upstream("wrong", &json!({}));
    hub.upstreams().reload().await;
}

#[tokio::test]
async fn status_lists_only_servers_with_visible_tools() {
    let hub = TestHub::start_timed(fast_timing()).await;
    two_servers(&hub).await;
    let names = async |client: &McpClient| -> Vec<String> {
        let names = servers(client).await.into_iter().map(|s| s["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    let admin = hub.mcp(&hub.admin_token());
    assert_eq!(names(&admin).await, ["fix", "s", "wrong"]);
    assert_eq!(names(&agent(&hub).await).await, ["fix", "s"]);
    let narrow = hub.token("narrow", &["call:mcp_status", "call:mcp__fix__echo"]).await.token;
    let narrow = hub.mcp(&narrow);
    let visible_servers = servers(&narrow).await;
    assert_eq!(visible_servers.len(), 1);
    assert_eq!(visible_servers[0]["tools"], json!(["mcp__fix__echo"]));
    assert_eq!(
        [&visible_servers[0]["state"], &visible_servers[0]["era"], &visible_servers[0]["revision"]],
        ["ready", "session", "2025-11-25"]
    );
    let all = servers(&admin).await;
    assert_eq!(all[2]["state"], "invalid");
    assert!(all[2]["last_error"].as_str().unwrap().contains("wrong.json"), "{}", all[2]);
}

#[tokio::test]
async fn standard_error_is_shown_only_to_admins() {
    const WORDS: &str = "no licence for ann";
    let hub = TestHub::start_timed(fast_timing()).await;
    let refusing = format!("[ -e \"$dir/away\" ] && {{ echo \"{WORDS} with $PLACE\" >&2; exit 3; }}");
    let mut document = Script::answering("say done").before(&refusing).install(&hub, "s");
    document["env"] = json!({ "PLACE": "plainlywords" });
    let pid = hub.add_upstream("s", &document).await.pid.unwrap();
    touch(&folder(&hub, "s").join("away"));
    signal(pid, "KILL");
    let failed = |upstream: &Upstream| {
        let failure = upstream.last_error.as_ref();
        upstream.state == UpstreamState::Down && failure.is_some_and(|f| f.message.contains(WORDS))
    };
    let down = hub.upstream_when("s", "down by its own words", failed).await;
    let (agent, admin) = (agent(&hub).await, hub.mcp(&hub.admin_token()));
    let refused = agent.tool("mcp__s__work", json!({})).await;
    assert_eq!(refused["_meta"]["plexus/error"]["code"], "unavailable", "{refused}");
    assert!(!refused.to_string().contains(WORDS), "{refused}");
    let status = agent.tool("mcp_status", json!({})).await;
    assert!(status.to_string().contains("exit status: 3") && !status.to_string().contains(WORDS), "{status}");
    let status = admin.tool("mcp_status", json!({})).await.to_string();
    assert!(status.contains(WORDS), "{status}");
    // Nobody sees the secrets that it was given.
    let text = format!("{status} {:?} {:?}", down.last_error, hub.upstreams().logs("s"));
    assert!(text.contains("ann with [redacted]") && !text.contains("plainlywords"), "{text}");
}

#[tokio::test]
async fn output_that_is_not_a_message_is_shown_while_waiting() {
    let hub = TestHub::start_timed(fast_polling_timing()).await;
    let babbling = "if [ ! -e \"$dir/well\" ]; then echo 'Enter your name:'; while [ ! -e \"$dir/well\" ]; do sleep 0.05; done; fi";
    hub.write_upstream("s", &Script::answering("say done").before(babbling).install(&hub, "s"));
    let babbles = |upstream: &Upstream| upstream.remark.is_some();
    let waited_for = hub.upstream_when("s", "babbling", babbles).await;
    let remark = "its output is not an MCP message; the last line: Enter your name:";
    assert_eq!((waited_for.state, waited_for.remark.as_deref()), (UpstreamState::Starting, Some(remark)));
    let status = hub.mcp(&hub.admin_token()).tool("mcp_status", json!({})).await;
    assert_eq!(status["structuredContent"]["servers"][0]["warnings"], json!([remark]), "{status}");
    touch(&folder(&hub, "s").join("well"));
    let well = hub.upstream_in("s", UpstreamState::Ready).await;
    assert_eq!(well.remark, None, "it has said who it is since");
}

#[tokio::test]
async fn missing_program_status_omits_the_search_path() {
    let hub = TestHub::start_timed(fast_timing()).await;
    hub.write_upstream("s", &json!({ "command": "no-such-program", "env": { "PATH": "/nowhere/bin" } }));
    hub.upstreams().reload().await;
    let text = hub.upstream_when("s", "down", |upstream| upstream.last_error.is_some()).await;
    let message = text.last_error.unwrap().message;
    assert!(
        message.contains("`no-such-program` was not found") && !message.contains("/nowhere"),
        "{message}"
    );
}

#[tokio::test]
async fn reload_tools_is_for_admins_only() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let listed = client.modern("tools/list", json!({})).await;
    assert!(listed.body.contains("mcp_status") && !listed.body.contains("reload_tools"));
    let refused = client.modern("tools/call", json!({ "name": "reload_tools", "arguments": {} })).await;
    let missing = client.modern("tools/call", json!({ "name": "reload_spools", "arguments": {} })).await;
    assert_eq!(refused.error(), missing.error());

    hub.write_upstream("s", &Script::answering("say done").install(&hub, "s"));
    hub.write_upstream("wrong", &json!({}));
    let reloaded = hub.mcp(&hub.admin_token()).tool("reload_tools", json!({})).await;
    assert_eq!(reloaded["isError"], false, "what fails of it is not all of it: {reloaded}");
    let instructions = &reloaded["structuredContent"];
    assert_eq!(instructions["added"], json!(["s", "wrong"]));
    assert_eq!(instructions["tools_added"], json!(["mcp__s__work"]));
    assert_eq!(instructions["failed"][0]["name"], "wrong", "{instructions}");
    assert_eq!(text(&client.tool("mcp__s__work", json!({})).await), "done");
}

#[tokio::test]
async fn instructions_cover_only_visible_servers() {
    let hub = TestHub::start_timed(fast_timing()).await;
    two_servers(&hub).await;
    let wide = agent(&hub).await;
    let narrow = hub.mcp(&hub.token("narrow", &["call:mcp__fix__echo"]).await.token);
    let modern = async |client: &McpClient| {
        client.modern("server/discover", json!({})).await.result()["instructions"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let instructions = modern(&wide).await;
    assert_eq!(wide.initialize("2025-06-18").await.1["instructions"], instructions.as_str());
    for words in ["one hub for all agents", "Use it for work only.", "Words of the script."] {
        assert!(instructions.contains(words), "{words:?} is missing: {instructions}");
    }
    let instructions = modern(&narrow).await;
    assert!(
        instructions.contains("one hub for all agents") && !instructions.contains("script"),
        "{instructions}"
    );
}

#[tokio::test]
async fn metrics_contain_the_servers() {
    let hub = TestHub::start_timed(fast_timing()).await;
    hub.add_upstream("fix", &stdio_fixture(Eras::Both)).await;
    let metrics = metrics(&hub).await;
    for line in [
        r#"plexus_upstream_state{server="fix",state="ready"} 1"#,
        r#"plexus_upstream_restarts_total{server="fix"} 0"#,
        r#"plexus_upstream_calls_in_flight{server="fix"} 0"#,
    ] {
        assert!(metrics.lines().any(|metric| metric == line), "{line} is missing:\n{metrics}");
    }
}
