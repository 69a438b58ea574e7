//! The lifecycle of servers: shared, lost, given up, withdrawn, and restored.

use std::time::Duration;

use plexus_proto::api::UpstreamState;
use plexus_testkit::fixture::{Eras, FixtureProcess};
use plexus_testkit::{TestHub, stdio_fixture, until};
use plexus_upstream::Timing;
use serde_json::{Value, json};

use super::script::{Script, folder, touch};
use super::{agent, fast_timing, is_alive, process_of, signal, text, tools_of};

async fn listening(hub: &TestHub) -> plexus_testkit::SseStream {
    let (client, request) = agent(hub).await.modern_request(
        1,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    let mut stream = client.post_stream(&request).await;
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    stream
}

fn is_list_changed(message: &Value) -> bool {
    message["method"] == "notifications/tools/list_changed"
}

#[tokio::test]
async fn sessions_share_one_process() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let upstream = hub.add_upstream("fix", &stdio_fixture(Eras::Both)).await;
    let (one, _) = agent(&hub).await.initialize("2025-06-18").await;
    let (two, _) = hub.mcp(&hub.admin_token()).initialize("2025-11-25").await;
    let mut processes = Vec::new();
    for client in [&one, &two, &one] {
        let call = json!({ "name": "mcp__fix__describe_call", "arguments": {} });
        let result = client.call("tools/call", call).await.result();
        processes.push(result["structuredContent"]["process"].as_u64().unwrap());
    }
    assert_eq!(processes, [u64::from(upstream.pid.unwrap()); 3]);
    assert_eq!((upstream.restarts, upstream.in_flight), (0, 0));
}

#[tokio::test]
async fn crash_restarts_the_server_without_a_list_change() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let before = hub.add_upstream("fix", &stdio_fixture(Eras::Sessions)).await;
    let mut stream = listening(&hub).await;
    let names = tools_of(&client, "fix").await;
    let crashed = client.tool("mcp__fix__crash", json!({})).await;
    assert_eq!(crashed["isError"], true);
    assert_eq!(crashed["_meta"]["plexus/error"]["code"], "unavailable", "{crashed}");
    assert_eq!(crashed["_meta"]["plexus/error"]["retryable"], true);
    assert!(text(&crashed).contains("It is unknown whether"), "{crashed}");
    // Immediately: the call waits for the starting server.
    let echoed = client.tool("mcp__fix__echo", json!({ "text": "there again" })).await;
    assert_eq!(text(&echoed), "there again");
    let after = hub.upstream_in("fix", UpstreamState::Ready).await;
    assert_ne!(before.pid, after.pid);
    assert_eq!(after.restarts, 1);
    assert!(!is_alive(before.pid.unwrap()));
    assert_eq!(tools_of(&client, "fix").await, names);
    assert_eq!(stream.until_quiet().await, Vec::<Value>::new());
}

#[tokio::test]
async fn crash_loop_is_given_up_until_the_file_changes() {
    let hub = TestHub::start_timed(Timing { crashes: 3, ..fast_timing() }).await;
    let broken = Script::default().before("echo 'no licence found' >&2; exit 3").install(&hub, "loop");
    hub.write_upstream("loop", &broken);
    hub.write_upstream("well", &stdio_fixture(Eras::Both));
    let report = hub.upstreams().reload().await;
    let failed = hub.upstream_in("loop", UpstreamState::Failed).await;
    assert_eq!(failed.restarts, 2);
    assert!(failed.retry_at.is_some());
    let failure = failed.last_error.unwrap();
    assert!(failure.message.contains("exit status: 3"), "{failure:?}");
    assert_eq!(failure.stderr.last().map(String::as_str), Some("no licence found"));
    // An attempt may start two processes, one per era; earlier ones explain nothing.
    assert!(failure.stderr.len() <= 2, "{failure:?}");
    assert!(hub.upstreams().logs("loop").unwrap().len() > 2);
    let failed: Vec<_> = report.failed.iter().map(|failed| failed.name.as_str()).collect();
    assert_eq!((report.added, failed), (vec!["loop".to_owned(), "well".to_owned()], vec!["loop"]));
    assert_eq!(hub.upstreams().logs("loop").unwrap().last().map(String::as_str), Some("no licence found"));
    hub.upstream_in("well", UpstreamState::Ready).await;

    let repaired = Script::answering("say done").install(&hub, "loop");
    assert_eq!(repaired, broken, "the file of the server is the same");
    let restarted = hub.upstreams().restart("loop").await.unwrap();
    assert_eq!(restarted.state, UpstreamState::Ready);
    assert_eq!(text(&agent(&hub).await.tool("mcp__loop__work", json!({})).await), "done");
}

#[tokio::test]
async fn silent_server_delays_no_other_server() {
    let hub = TestHub::start_timed(Timing { connect: Duration::from_secs(1), ..fast_timing() }).await;
    hub.write_upstream("hangs", &json!({ "command": "sleep", "args": ["1000"] }));
    hub.write_upstream("well", &stdio_fixture(Eras::Both));
    hub.upstreams().reload().await;
    hub.upstream_in("well", UpstreamState::Ready).await;
    let echoed = agent(&hub).await.tool("mcp__well__echo", json!({ "text": "here" })).await;
    assert_eq!(text(&echoed), "here");
    let hangs = hub.upstream_when("hangs", "down", |upstream| upstream.last_error.is_some()).await;
    assert!(hangs.last_error.unwrap().message.contains("within 1 s"));
}

#[tokio::test]
async fn stopped_process_is_detected_and_replaced() {
    let ping = Duration::from_millis(200);
    let hub = TestHub::start_timed(Timing { ping, ping_answer: ping, ..fast_timing() }).await;
    let before = hub.add_upstream("fix", &stdio_fixture(Eras::Sessions)).await;
    let pid = before.pid.unwrap();
    signal(pid, "STOP");
    let after = hub.upstream_when("fix", "replaced", |upstream| {
        upstream.state == UpstreamState::Ready && upstream.pid != Some(pid)
    });
    let after = after.await;
    assert!(!is_alive(pid));
    assert!(after.last_error.unwrap().message.contains("ping"));
    assert_eq!(process_of(&agent(&hub).await, "fix").await, u64::from(after.pid.unwrap()));
}

#[tokio::test]
async fn busy_server_is_not_restarted() {
    let ping = Duration::from_millis(50);
    let hub = TestHub::start_timed(Timing { ping, ping_answer: ping, ..fast_timing() }).await;
    let document = Script::answering("sleep 1; say \"$$\"").install(&hub, "busy");
    let before = hub.add_upstream("busy", &document).await;
    let worked = agent(&hub).await.tool("mcp__busy__work", json!({})).await;
    assert_eq!(text(&worked), before.pid.unwrap().to_string());
    assert_eq!(hub.upstreams().get("busy").unwrap().restarts, 0);
}

#[tokio::test]
async fn tools_are_withdrawn_after_the_grace_period_and_return() {
    let hub = TestHub::start_timed(Timing { grace: Duration::from_secs(2), ..fast_timing() }).await;
    let client = agent(&hub).await;
    let script = Script::answering("say done").before("[ -e \"$dir/away\" ] && exit 1");
    let upstream = hub.add_upstream("s", &script.install(&hub, "s")).await;
    let mut stream = listening(&hub).await;
    touch(&folder(&hub, "s").join("away"));
    signal(upstream.pid.unwrap(), "KILL");
    hub.upstream_when("s", "down", |upstream| upstream.state == UpstreamState::Down).await;
    let refused = client.tool("mcp__s__work", json!({})).await;
    assert_eq!(refused["_meta"]["plexus/error"]["code"], "unavailable", "{refused}");
    assert_eq!(refused["_meta"]["plexus/error"]["retryable"], true);
    assert!(text(&refused).starts_with("s is not available"), "{refused}");
    assert!(text(&refused).contains("Nothing was run"), "{refused}");
    assert_eq!(tools_of(&client, "s").await, ["mcp__s__work"], "still listed");

    assert!(is_list_changed(&stream.message().await.unwrap()));
    assert_eq!(tools_of(&client, "s").await, Vec::<String>::new());
    let unknown = client.modern("tools/call", json!({ "name": "mcp__s__work" })).await;
    assert_eq!(unknown.json()["error"]["code"], -32602);

    std::fs::remove_file(folder(&hub, "s").join("away")).unwrap();
    assert!(is_list_changed(&stream.message().await.unwrap()));
    assert_eq!(text(&client.tool("mcp__s__work", json!({})).await), "done");
    assert_eq!(stream.until_quiet().await, Vec::<Value>::new());
}

#[tokio::test]
async fn tool_list_changes_are_followed_and_rate_limited() {
    let hub = TestHub::start_timed(Timing { relist: Duration::from_millis(200), ..fast_timing() }).await;
    let client = agent(&hub).await;
    let mut trusted = stdio_fixture(Eras::Both);
    trusted["approve"] = json!("auto");
    hub.add_upstream("fix", &trusted).await;
    let mut stream = listening(&hub).await;
    client.tool("mcp__fix__change_tools", json!({})).await;
    assert!(is_list_changed(&stream.message().await.unwrap()));
    assert!(tools_of(&client, "fix").await.contains(&"mcp__fix__added_tool".to_owned()));

    let flood = "n=0; while [ $n -lt 2000 ]; do n=$((n+1)); \
                 echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}'; done; say done";
    let mut script = Script::answering(flood);
    script.before = "exec 2>\"$dir/log\"; set -x".to_owned();
    let document = script.install(&hub, "flood");
    hub.add_upstream("flood", &document).await;
    assert_eq!(text(&client.tool("mcp__flood__work", json!({})).await), "done");
    // The messages that the script received, one line each.
    let lists = || {
        let log = std::fs::read_to_string(folder(&hub, "flood").join("log")).unwrap();
        log.lines().filter(|line| line.starts_with("+ reply") && line.contains("\"tools\":[")).count()
    };
    assert!(lists() <= 10, "{} lists for 2,000 changes", lists());
    assert_eq!(stream.until_quiet().await.len(), 1, "the list of tools changed once, when the server came");
}

#[tokio::test]
async fn first_failed_call_detects_a_lost_http_server() {
    let hub = TestHub::start_timed(Timing { grace: Duration::from_millis(500), ..fast_timing() }).await;
    let client = agent(&hub).await;
    let server = FixtureProcess::start(Eras::Stateless).await;
    hub.add_upstream("far", &json!({ "url": server.url() })).await;
    let mut stream = listening(&hub).await;
    assert_eq!(text(&client.tool("mcp__far__echo", json!({ "text": "here" })).await), "here");
    drop(server);
    let refused = client.tool("mcp__far__echo", json!({ "text": "there?" })).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let down = hub.upstream_when("far", "missed", |upstream| upstream.last_error.is_some()).await;
    assert_ne!(down.state, UpstreamState::Ready, "{refused} {down:?}");
    assert!(is_list_changed(&stream.message().await.unwrap()));
    assert_eq!(tools_of(&client, "far").await, Vec::<String>::new());
}

#[tokio::test]
async fn lazy_server_starts_once_for_its_tools_and_then_on_calls() {
    let hub = TestHub::start_timed(Timing { idle: Duration::from_millis(300), ..fast_timing() }).await;
    let client = agent(&hub).await;
    let mut document = stdio_fixture(Eras::Both);
    document["lazy"] = json!(true);
    let learnt = hub.add_upstream("fix", &document).await;
    let idle = hub.upstream_in("fix", UpstreamState::Idle).await;
    assert!(!is_alive(learnt.pid.unwrap()));
    assert!(idle.tools.contains(&"mcp__fix__echo".to_owned()));
    let echoed = client.tool("mcp__fix__echo", json!({ "text": "awake" })).await;
    assert_eq!(text(&echoed), "awake");
    let again = hub.upstream_in("fix", UpstreamState::Idle).await;
    assert_eq!((again.last_error, again.restarts), (None, 1));
    assert_eq!(text(&client.tool("mcp__fix__echo", json!({ "text": "twice" })).await), "twice");
}

#[tokio::test]
async fn lazy_server_runs_while_a_resource_is_watched() {
    const WATCHED: &str = "test://watched-resource";
    let idle = Duration::from_millis(300);
    let hub = TestHub::start_timed(Timing { idle, ..fast_timing() }).await;
    let mut document = stdio_fixture(Eras::Both);
    document["lazy"] = json!(true);
    hub.add_upstream("fix", &document).await;
    hub.upstream_in("fix", UpstreamState::Idle).await;
    let (client, request) = agent(&hub).await.modern_request(
        1,
        "subscriptions/listen",
        json!({ "notifications": { "resourceSubscriptions": [WATCHED] } }),
    );
    let mut stream = client.post_stream(&request).await;
    let first_message = stream.message().await.unwrap();
    assert_eq!(
        first_message["params"]["notifications"]["resourceSubscriptions"],
        json!([WATCHED]),
        "{first_message}"
    );
    let there = hub.upstream_in("fix", UpstreamState::Ready).await;
    let_another_server_go_idle(&hub).await;
    assert_eq!(hub.upstream_in("fix", UpstreamState::Ready).await.pid, there.pid, "it did not go to rest");
    while !stream.until_quiet().await.is_empty() {}
    // Changes during its absence are unknown, so subscribers are notified.
    signal(there.pid.unwrap(), "KILL");
    let last_message = stream.message().await.unwrap();
    assert_eq!(
        (&last_message["method"], &last_message["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(WATCHED))
    );
    drop(stream);
    hub.upstream_in("fix", UpstreamState::Idle).await;
}

#[tokio::test]
async fn lazy_server_is_not_stopped_during_a_long_call() {
    let hub = TestHub::start_timed(Timing { idle: Duration::from_millis(50), ..fast_timing() }).await;
    let client = agent(&hub).await;
    let script =
        Script::answering(": > \"$dir/in\"; until [ -e \"$dir/go\" ]; do sleep 0.05; done; say done");
    let mut document = script.install(&hub, "s");
    document["lazy"] = json!(true);
    hub.add_upstream("s", &document).await;
    let dir = folder(&hub, "s");
    let call = client.tool("mcp__s__work", json!({}));
    let outlasts = async {
        until("the call runs", async || dir.join("in").exists()).await;
        let_another_server_go_idle(&hub).await;
        touch(&dir.join("go"));
    };
    assert_eq!(text(&tokio::join!(call, outlasts).0), "done");
}

/// On one thread, so that all calls are waiting before the server is woken.
#[tokio::test]
async fn concurrent_calls_start_a_lazy_server_once() {
    let hub = TestHub::start_timed(Timing { idle: Duration::from_millis(300), ..fast_timing() }).await;
    let client = agent(&hub).await;
    let script = Script::answering("say done").before("echo started >> \"$dir/starts\"");
    let mut document = script.install(&hub, "s");
    document["lazy"] = json!(true);
    hub.add_upstream("s", &document).await;
    hub.upstream_in("s", UpstreamState::Idle).await;
    let file = folder(&hub, "s").join("starts");
    let starts = || std::fs::read_to_string(&file).unwrap().lines().count();
    let before = starts();
    let calls = (0..64).map(|_| client.tool("mcp__s__work", json!({})));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(text(&result), "done");
    }
    assert_eq!(hub.upstream_in("s", UpstreamState::Idle).await.restarts, 1);
    // A start that nobody asked for would come in this time.
    let_another_server_go_idle(&hub).await;
    let _folder = hub.stop().await;
    assert_eq!(starts(), before + 1);
}

/// Calls another lazy server and waits until it is stopped, which takes longer than the idle time.
async fn let_another_server_go_idle(hub: &TestHub) {
    let mut document = Script::answering("say done").install(hub, "other");
    document["lazy"] = json!(true);
    hub.add_upstream("other", &document).await;
    assert_eq!(text(&agent(hub).await.tool("mcp__other__work", json!({})).await), "done");
    hub.upstream_in("other", UpstreamState::Idle).await;
}

#[tokio::test]
async fn per_session_server_has_one_process_per_session() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let mut document = stdio_fixture(Eras::Both);
    document["per_session"] = json!(true);
    let shared = hub.add_upstream("fix", &document).await;
    let token = hub.token("agent", &["call:*"]).await.token;
    let client = |thread: &str| hub.mcp(&token).header("plexus-session", thread);
    let (one, two) = (client("one"), client("two"));
    let processes =
        [process_of(&one, "fix").await, process_of(&two, "fix").await, process_of(&one, "fix").await];
    assert_eq!(processes[0], processes[2]);
    assert_ne!(processes[0], processes[1]);
    assert!(!processes.contains(&u64::from(shared.pid.unwrap())));
    // The loss of one connection affects only its session.
    one.tool("mcp__fix__crash", json!({})).await;
    assert_eq!(process_of(&two, "fix").await, processes[1]);
    let new = process_of(&one, "fix").await;
    assert_ne!(new, processes[0]);
    assert_eq!(hub.upstreams().get("fix").unwrap().pid, shared.pid);
    let pids = [new, processes[1], u64::from(shared.pid.unwrap())];
    hub.stop().await;
    for pid in pids {
        assert!(!is_alive(u32::try_from(pid).unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_lazy_server_loses_no_call() {
    let hub = TestHub::start_timed(Timing { idle: Duration::from_millis(1), ..fast_timing() }).await;
    let client = agent(&hub).await;
    let mut document = stdio_fixture(Eras::Both);
    document["lazy"] = json!(true);
    hub.write_upstream("fix", &document);
    hub.upstreams().reload().await;
    hub.upstream_in("fix", UpstreamState::Idle).await;
    for n in 0..30 {
        let echoed = client.tool("mcp__fix__echo", json!({ "text": n.to_string() })).await;
        assert_eq!(text(&echoed), n.to_string());
    }
}

#[tokio::test]
async fn session_process_follows_the_file() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let script = Script::answering("say \"$$\"").before("[ -e \"$dir/away\" ] && exit 1");
    let mut document = script.install(&hub, "s");
    document["per_session"] = json!(true);
    let shared = hub.add_upstream("s", &document).await;
    let client = hub.mcp(&hub.token("agent", &["call:*"]).await.token).header("plexus-session", "one");
    let process = async || -> u32 {
        let result = client.tool("mcp__s__work", json!({})).await;
        text(&result).parse().unwrap_or_else(|_| panic!("{result}"))
    };
    // A connection that ends while idle is replaced by the next call.
    let tasks = hub.tasks();
    let first = process().await;
    signal(first, "KILL");
    let ended = async {
        while hub.tasks() > tasks {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("its tasks end");
    let second = process().await;
    assert_ne!(second, first);
    // It needs the shared connection only for its creation.
    touch(&folder(&hub, "s").join("away"));
    signal(shared.pid.unwrap(), "KILL");
    hub.upstream_in("s", UpstreamState::Down).await;
    assert_eq!(process().await, second);
    document["enabled"] = json!(false);
    hub.write_upstream("s", &document);
    hub.upstreams().reload().await;
    hub.upstream_in("s", UpstreamState::Disabled).await;
    assert!(!is_alive(second));
}

#[tokio::test]
async fn stopping_hub_drains_calls_and_kills_processes() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let mut pids = Vec::new();
    for (name, document) in [
        ("fix", stdio_fixture(Eras::Both)),
        // It ignores the end of its input and SIGTERM.
        (
            "stubborn",
            Script::answering("say done").before("trap '' TERM; sleep 1000 &").install(&hub, "stubborn"),
        ),
    ] {
        pids.push(hub.add_upstream(name, &document).await.pid.unwrap());
    }
    let client = agent(&hub).await;
    let slow =
        json!({ "name": "mcp__fix__slow", "arguments": { "ms": 1_000 }, "_meta": { "progressToken": 1 } });
    let (client, request) = client.modern_request(1, "tools/call", slow);
    let mut stream = client.post_stream(&request).await;
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/progress", "it runs");
    let (_dir, messages) = tokio::join!(hub.stop(), stream.to_end());
    assert!(text(&messages.last().unwrap()["result"]).starts_with("waited"), "{messages:?}");
    for pid in pids {
        assert!(!is_alive(pid), "{pid} is still there");
    }
}

#[tokio::test]
async fn cached_tools_are_listed_before_their_server_starts() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let script = Script::answering("say done").before("until [ -e \"$dir/go\" ]; do sleep 0.02; done");
    let document = script.install(&hub, "slow");
    touch(&folder(&hub, "slow").join("go"));
    hub.add_upstream("slow", &document).await;

    std::fs::remove_file(folder(&hub, "slow").join("go")).unwrap();
    let hub = hub.restart().await;
    let starting = hub.upstream_when("slow", "listed again", |upstream| !upstream.tools.is_empty()).await;
    assert_eq!(
        (starting.state, starting.tools),
        (UpstreamState::Starting, vec!["mcp__slow__work".to_owned()])
    );
    let client = agent(&hub).await;
    let call = client.tool("mcp__slow__work", json!({}));
    let let_go = async { touch(&folder(&hub, "slow").join("go")) };
    let (result, ()) = tokio::join!(call, let_go);
    assert_eq!(text(&result), "done", "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_call_runs_when_the_hub_stops() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let script =
        Script::answering(": > \"$dir/in\"; until [ -e \"$dir/go\" ]; do sleep 0.02; done; say done");
    let mut document = script.install(&hub, "s");
    document["max_concurrency"] = json!(1);
    hub.add_upstream("s", &document).await;
    let client = agent(&hub).await;
    let (upstreams, dir) = (hub.upstreams().clone(), folder(&hub, "s"));
    let mut calls = tokio::task::JoinSet::new();
    for running in [1, 2] {
        let client = client.clone();
        calls.spawn(async move { client.tool("mcp__s__work", json!({})).await });
        until("the call runs or waits", async || {
            dir.join("in").exists() && upstreams.get("s").unwrap().in_flight == running
        })
        .await;
    }
    // Nothing is aborted.
    let (_dir, ()) = tokio::join!(hub.stop(), async { touch(&dir.join("go")) });
    for result in calls.join_all().await {
        assert_eq!(text(&result), "done");
    }
}
