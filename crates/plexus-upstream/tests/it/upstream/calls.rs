//! Calls of tools of upstream servers: arguments, results, and errors.

use std::time::{Duration, Instant};

use plexus_proto::api::UpstreamState;
use plexus_testkit::fixture::Eras;
use plexus_testkit::{TestHub, stdio_fixture, until};
use plexus_upstream::Timing;
use serde_json::{Value, json};

use super::script::{Script, folder};
use super::{agent, call_with_key, fast_timing, text, tools_of};

/// Exits without an answer the first time, and works from then on.
const FIRST_TIME: &str = "[ -e \"$dir/ran\" ] || { : > \"$dir/ran\"; exit 1; }; say 'the second time'";

#[tokio::test(flavor = "multi_thread")]
async fn idempotent_tool_is_rerun_after_a_loss() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let script = Script::answering(FIRST_TIME);
    for (name, document) in [
        ("hinted", script.clone().idempotent().install(&hub, "hinted")),
        ("declared", {
            let mut document = script.install(&hub, "declared");
            document["tools"] = json!({ "idempotent": ["w*"] });
            document
        }),
    ] {
        hub.add_upstream(name, &document).await;
        for _ in 0..10 {
            let _ = std::fs::remove_file(folder(&hub, name).join("ran"));
            let result = client.tool(&format!("mcp__{name}__work"), json!({})).await;
            assert_eq!(text(&result), "the second time", "{name}: {result}");
        }
    }
    hub.add_upstream("neither", &script.install(&hub, "neither")).await;
    let failed = client.tool("mcp__neither__work", json!({})).await;
    assert_eq!(failed["_meta"]["plexus/error"]["code"], "unavailable", "{failed}");
    assert!(text(&failed).contains("Check first"), "{failed}");
    assert_eq!(hub.outcome_of("mcp__neither__work").await, "unavailable");
}

#[tokio::test]
async fn lost_call_is_not_reported_as_not_run() {
    let hub = TestHub::start_timed(Timing { start: Duration::from_millis(500), ..fast_timing() }).await;
    let script = Script::answering(": > \"$dir/away\"; exit 1").before("[ -e \"$dir/away\" ] && exit 1");
    hub.add_upstream("s", &script.idempotent().install(&hub, "s")).await;
    let lost = agent(&hub).await.tool("mcp__s__work", json!({})).await;
    assert_eq!(lost["_meta"]["plexus/error"]["code"], "unavailable", "{lost}");
    assert!(
        text(&lost).contains("was lost while work ran") && text(&lost).contains("without harm"),
        "{lost}"
    );
    assert!(!text(&lost).contains("Nothing was run"), "{lost}");
}

#[tokio::test]
async fn error_of_the_server_is_passed_on() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let call = "case \"$line\" in \
        *bad_arguments*) reply '\"error\":{\"code\":-32602,\"message\":\"text is too long\"}' ;; \
        *broken*) reply '\"error\":{\"code\":-32603,\"message\":\"out of paper\"}' ;; \
        *) reply '\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"no such file\"}],\"isError\":true}' ;; esac";
    hub.add_upstream("s", &Script::answering(call).install(&hub, "s")).await;
    for (tool_name, code, expected_text) in [
        ("bad_arguments", json!("invalid_arguments"), "text is too long"),
        ("broken", json!("tool_failed"), "out of paper"),
        ("own", Value::Null, "no such file"),
    ] {
        let result = client.tool("mcp__s__work", json!({ "what": tool_name })).await;
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["_meta"]["plexus/error"]["code"], code, "{result}");
        assert!(text(&result).contains(expected_text), "{result}");
    }
}

#[tokio::test]
async fn rename_and_injection_of_the_file_apply() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let token = hub.token("agent", &["call:*"]).await.token;
    let client = hub.mcp(&token).header("plexus-session", "thread");
    let mut document = stdio_fixture(Eras::Both);
    document["tools"] = json!({
        "allow": ["echo", "big", "slow", "describe_call"],
        "deny": ["b*"],
        "rename": { "echo": "repeat after me" },
    });
    document["inject"] = json!({ "text": "session_id" });
    hub.add_upstream("my fix", &document).await;
    let listed = client.modern("tools/list", json!({})).await.result();
    let is_own_tool = |tool: &&Value| tool["name"].as_str().unwrap().starts_with("mcp__my_fix__");
    let tools: Vec<&Value> = listed["tools"].as_array().unwrap().iter().filter(is_own_tool).collect();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let echo = "mcp__my_fix__repeat_after_me";
    assert_eq!(names, ["mcp__my_fix__describe_call", echo, "mcp__my_fix__slow"]);
    let schema = &tools[1]["inputSchema"];
    assert_eq!((&schema["properties"], &schema["required"]), (&json!({}), &Value::Null), "{schema}");
    let session = client.tool("session_info", json!({})).await["structuredContent"]["session_id"].clone();
    for arguments in [json!({}), json!({ "text": "another's" })] {
        assert_eq!(text(&client.tool(echo, arguments).await), session.as_str().unwrap());
    }
    let absent = client.modern("tools/call", json!({ "name": "mcp__my_fix__big" })).await;
    assert_eq!(absent.json()["error"]["code"], -32602, "what is denied does not exist");
}

#[tokio::test]
async fn relative_paths_resolve_to_the_session_folder() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = hub.mcp(&hub.token("agent", &["call:*"]).await.token).header("plexus-session", "thread");
    let files = client.tool("session_info", json!({})).await["structuredContent"]["files_dir"].clone();
    let files = files.as_str().unwrap();
    for (inject, given, arrives) in [
        ("session_files", json!({}), files.to_owned()),
        ("path", json!({ "text": "notes.txt" }), format!("{files}/notes.txt")),
        ("path", json!({ "text": "~/notes.txt" }), "/home/ann/notes.txt".to_owned()),
    ] {
        let mut document = stdio_fixture(Eras::Both);
        document["inject"] = json!({ "text": inject });
        hub.add_upstream("fix", &document).await;
        assert_eq!(text(&client.tool("mcp__fix__echo", given).await), arrives, "{inject}");
    }
}

#[tokio::test]
async fn max_concurrency_limits_running_calls() {
    const EACH: u64 = 300;
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let mut document = stdio_fixture(Eras::Both);
    document["max_concurrency"] = json!(1);
    hub.add_upstream("fix", &document).await;
    let slow = || client.tool("mcp__fix__slow", json!({ "ms": EACH }));
    let began = Instant::now();
    let results = tokio::join!(slow(), slow(), slow());
    for result in [&results.0, &results.1, &results.2] {
        assert!(text(result).starts_with("waited"), "{result}");
    }
    assert!(began.elapsed() >= Duration::from_millis(3 * EACH), "{:?}", began.elapsed());
    // The limit is raised without a restart, and a waiting call is cancelled by its deadline.
    let pid = hub.upstreams().get("fix").unwrap().pid;
    document["max_concurrency"] = json!(3);
    hub.write_upstream("fix", &document);
    assert_eq!(hub.upstreams().reload().await.changed, ["fix"]);
    let began = Instant::now();
    tokio::join!(slow(), slow(), slow());
    assert!(began.elapsed() < Duration::from_millis(3 * EACH), "{:?}", began.elapsed());
    assert_eq!(hub.upstreams().get("fix").unwrap().pid, pid);
}

#[tokio::test]
async fn progress_and_cancellation_reach_the_other_side() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let mut document = stdio_fixture(Eras::Both);
    document["timeout"] = json!("1s");
    hub.add_upstream("fix", &document).await;
    let slow = json!({ "name": "mcp__fix__slow", "arguments": {}, "_meta": { "progressToken": "mine" } });
    let (streaming, request) = client.modern_request(1, "tools/call", slow);
    let mut stream = streaming.post_stream(&request).await;
    let progress = stream.message().await.unwrap();
    assert_eq!(progress["params"]["progressToken"], "mine", "{progress}");
    drop(stream);
    // The second call times out.
    let late = client.tool("mcp__fix__slow", json!({})).await;
    assert_eq!(late["_meta"]["plexus/error"]["code"], "deadline_exceeded", "{late}");
    let cancelled = async || {
        let described = client.tool("mcp__fix__describe_call", json!({})).await;
        described["structuredContent"]["cancelledCalls"].as_u64().unwrap()
    };
    let both = async { while cancelled().await < 2 {} };
    tokio::time::timeout(Duration::from_secs(10), both).await.expect("both are cancelled at the server");
    assert_eq!(hub.upstreams().get("fix").unwrap().state, UpstreamState::Ready);
}

#[tokio::test]
async fn tool_removed_before_its_call_is_unknown() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    hub.add_upstream("s", &Script::answering("say done").install(&hub, "s")).await;
    assert_eq!(tools_of(&client, "s").await, ["mcp__s__work"]);
    std::fs::remove_file(hub.upstream_file("s")).unwrap();
    assert_eq!(hub.upstreams().reload().await.removed, ["s"]);
    let versions = hub.registry().versions();
    let mut versions = versions;
    let wait = async {
        while !hub.registry().listed_of("s").is_empty() {
            versions.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.expect("its tools are gone in time");
    let unknown = client.modern("tools/call", json!({ "name": "mcp__s__work" })).await;
    assert_eq!(unknown.json()["error"]["code"], -32602);
    assert!(folder(&hub, "s").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_an_unsent_cancelled_call_is_reusable() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let go = "echo x >> \"$dir/ran\"; until [ -e \"$dir/go\" ]; do sleep 0.02; done; say done";
    let mut document = Script::answering(go).install(&hub, "s");
    document["max_concurrency"] = json!(1);
    hub.add_upstream("s", &document).await;
    let dir = folder(&hub, "s");
    let ran = || std::fs::read_to_string(dir.join("ran")).unwrap_or_default().lines().count();
    let first = client.tool("mcp__s__work", json!({}));
    let other_calls = async {
        until("the first call runs", async || ran() == 1).await;
        let waiting = || hub.upstreams().get("s").unwrap().in_flight;
        // A client disconnects while its call waits for its turn.
        tokio::select! {
            result = call_with_key(&client, "mcp__s__work", "gone") => panic!("{result}"),
            () = until("the second call waits", async || waiting() == 2) => {}
        }
        until("the second call is abandoned", async || waiting() == 1).await;
        // Another call times out before its turn.
        document["timeout"] = json!("1s");
        hub.write_upstream("s", &document);
        assert_eq!(hub.upstreams().reload().await.changed, ["s"]);
        let late = call_with_key(&client, "mcp__s__work", "late").await;
        assert_eq!(late["_meta"]["plexus/error"]["code"], "deadline_exceeded", "{late}");
        assert!(text(&late).contains("Nothing was run"), "{late}");
        std::fs::write(dir.join("go"), "").unwrap();
    };
    let (first, ()) = tokio::join!(first, other_calls);
    assert_eq!(text(&first), "done");
    assert_eq!(ran(), 1);
    for key in ["gone", "late"] {
        let again = call_with_key(&client, "mcp__s__work", key).await;
        assert_eq!(text(&again), "done", "{key}: {again}");
    }
    assert_eq!(ran(), 3);
}
