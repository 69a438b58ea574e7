//! Findings of a review, each a test that fails today.

use std::time::{Duration, Instant};

use plexus_mcp::upstream::Timing;
use plexus_proto::api::UpstreamState;
use plexus_testkit::{McpClient, TestHub};
use serde_json::{Value, json};

use super::script::{Script, folder};
use super::{agent, quick, text};

/// Seconds that this process has worked so far.
fn worked() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

async fn keyed(client: &McpClient, tool: &str, key: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {}, "_meta": { "plexus/idempotency-key": key } });
    client.modern("tools/call", params).await.result()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_of_a_lazy_server_costs_nothing_while_it_runs() {
    let hub = TestHub::start_timed(Timing { idle: Duration::from_millis(300), ..quick() }).await;
    let client = agent(&hub).await;
    let mut document = Script::answering("sleep 4; say done").install(&hub, "s");
    document["lazy"] = json!(true);
    hub.add_upstream("s", &document).await;
    let call = client.tool("mcp__s__work", json!({}));
    let measured = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let before = worked();
        tokio::time::sleep(Duration::from_secs(2)).await;
        worked() - before
    };
    let (result, worked) = tokio::join!(call, measured);
    assert_eq!(text(&result), "done");
    assert!(worked < 0.5, "{worked} s of 2 s");
}

#[tokio::test]
async fn a_lazy_server_that_two_calls_woke_is_started_once() {
    let hub = TestHub::start_timed(Timing { idle: Duration::from_millis(300), ..quick() }).await;
    let client = agent(&hub).await;
    let mut document = Script::answering("say done").install(&hub, "s");
    document["lazy"] = json!(true);
    hub.add_upstream("s", &document).await;
    hub.upstream_in("s", UpstreamState::Idle).await;
    let calls = (0..64).map(|_| client.tool("mcp__s__work", json!({})));
    futures_util::future::join_all(calls).await;
    hub.upstream_in("s", UpstreamState::Idle).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = hub.upstream_in("s", UpstreamState::Idle).await;
    assert_eq!(idle.restarts, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_its_turn_is_told_when_its_server_is_removed() {
    let hub = TestHub::start_timed(Timing { start: Duration::from_secs(6), ..quick() }).await;
    let client = agent(&hub).await;
    let mut document = Script::answering(": > \"$dir/in\"; sleep 2; say done").install(&hub, "s");
    document["max_concurrency"] = json!(1);
    hub.add_upstream("s", &document).await;
    let first = client.tool("mcp__s__work", json!({}));
    let second = async {
        while !folder(&hub, "s").join("in").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let params = json!({ "name": "mcp__s__work", "arguments": {} });
        let call = client.modern("tools/call", params);
        let gone = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            std::fs::remove_file(hub.upstream_file("s")).unwrap();
            hub.upstreams().reload().await;
            Instant::now()
        };
        let (answer, removed) = tokio::join!(call, gone);
        eprintln!("{answer:?}");
        removed.elapsed()
    };
    let (_, waited) = tokio::join!(first, second);
    assert!(waited < Duration::from_secs(4), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_its_turn_does_not_hold_up_the_end_of_the_hub() {
    let hub = TestHub::start_timed(quick()).await;
    let mut document = Script::answering(": > \"$dir/in\"; sleep 40; say done").install(&hub, "s");
    document["max_concurrency"] = json!(1);
    hub.add_upstream("s", &document).await;
    let ran = folder(&hub, "s").join("in");
    let token = hub.token("rest", &["call:*"]).await.token;
    let mut calls = tokio::task::JoinSet::new();
    for key in ["first", "second"] {
        let request = hub
            .http()
            .post(hub.url("/api/v1/tools/mcp__s__work/call"))
            .bearer_auth(&token)
            .header("idempotency-key", key)
            .json(&json!({ "arguments": {} }));
        calls.spawn(async move {
            let answer = request.send().await;
            match answer {
                Ok(answer) => eprintln!("{key}: {} {:?}", answer.status(), answer.text().await),
                Err(error) => eprintln!("{key}: {error:?}"),
            }
        });
        while !ran.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    let _dir = hub.stop().await;
    eprintln!("stopped after {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_runs_the_tool_that_it_was_admitted_to_or_none() {
    let hub = TestHub::start_timed(quick()).await;
    let client = agent(&hub).await;
    let tools = ["read", "delete"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
    let script = Script {
        before: String::new(),
        tools: tools.to_vec(),
        call: "printf '%s\\n' \"$line\" >> \"$dir/log\"; \
            case \"$line\" in *'\"name\":\"read\"'*) sleep 3; reply '\"error\":{\"code\":-32602,\"message\":\"no\"}' ;; \
            *) say done ;; esac"
            .to_owned(),
    };
    let mut document = script.install(&hub, "s");
    document["tools"] = json!({ "rename": { "read": "x" } });
    hub.add_upstream("s", &document).await;
    let log = folder(&hub, "s").join("log");
    let first = keyed(&client, "mcp__s__x", "k");
    let second = async {
        while !log.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let change = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            document["tools"] = json!({ "rename": { "delete": "x" } });
            hub.write_upstream("s", &document);
            hub.upstreams().reload().await;
        };
        // Admitted while `x` is `read`; it waits for the first call of its key.
        tokio::join!(keyed(&client, "mcp__s__x", "k"), change).0
    };
    let (one, two) = tokio::join!(first, second);
    eprintln!("{one}\n{two}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("\"name\":\"delete\""), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_a_call_that_was_cancelled_before_its_turn_is_free_again() {
    let hub = TestHub::start_timed(quick()).await;
    let client = agent(&hub).await;
    let mut document = Script::answering("echo x >> \"$dir/in\"; sleep 2; say done").install(&hub, "s");
    document["max_concurrency"] = json!(1);
    hub.add_upstream("s", &document).await;
    let ran = folder(&hub, "s").join("in");
    let first = client.tool("mcp__s__work", json!({}));
    let second = async {
        while !ran.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The client goes away while its call waits for its turn, and asks again with the same key.
        let away = tokio::time::timeout(Duration::from_millis(500), keyed(&client, "mcp__s__work", "k")).await;
        assert!(away.is_err());
    };
    let (one, ()) = tokio::join!(first, second);
    assert_eq!(text(&one), "done");
    assert_eq!(std::fs::read_to_string(&ran).unwrap().lines().count(), 1);
    let again = keyed(&client, "mcp__s__work", "k").await;
    assert_eq!(text(&again), "done", "{again}");
}
