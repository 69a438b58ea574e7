//! A real server of each era as a process of the hub.

use std::sync::Arc;

use plexus_kit::{Secret, TraceContext};
use plexus_proto::api::UpstreamEra;
use plexus_testkit::fixture::Eras;
use plexus_testkit::until;
use plexus_upstream::client::{ClientError, Outgoing};
use serde_json::json;
use tokio::sync::mpsc;

use super::server::{PATIENCE, ServerStart, outgoing, wait_until_dead};

const ERAS: [(Eras, UpstreamEra, &str); 3] = [
    (Eras::Sessions, UpstreamEra::Session, "2025-11-25"),
    (Eras::Stateless, UpstreamEra::Stateless, "2026-07-28"),
    (Eras::Both, UpstreamEra::Stateless, "2026-07-28"),
];

#[tokio::test]
async fn servers_of_both_eras_are_detected_and_called() {
    for (eras, era, revision) in ERAS {
        let server = ServerStart::fixture(eras).connect().await;
        let peer = server.client.peer();
        assert_eq!((peer.era, &*peer.revision, &*peer.name), (era, revision, "plexus-fixture-server"));
        assert!(peer.instructions.as_deref().unwrap().starts_with("A server to test with"));
        assert!(server.tools().await.contains(&"echo".to_owned()));
        assert_eq!(server.text("echo", json!({ "text": "line one\nline two" })).await, "line one\nline two");
        server.client.ping().await.unwrap();
        let pid = server.client.pid().unwrap();
        server.close().await;
        wait_until_dead(pid).await;
        server.start.wait_for_no_tasks().await;
        let late = server.call("echo", json!({ "text": "" })).await.unwrap_err();
        assert!(matches!(late, ClientError::Unreachable(_)), "{late}");
    }
}

#[tokio::test]
async fn outdated_known_era_is_detected_again() {
    for (eras, known_era, detected_era) in [
        (Eras::Sessions, UpstreamEra::Stateless, UpstreamEra::Session),
        (Eras::Stateless, UpstreamEra::Session, UpstreamEra::Stateless),
        (Eras::Both, UpstreamEra::Session, UpstreamEra::Session),
    ] {
        let mut start = ServerStart::fixture(eras);
        start.connect.known_era = Some(known_era);
        let server = start.connect().await;
        assert_eq!(server.client.peer().era, detected_era, "{eras:?}");
        assert_eq!(server.text("echo", json!({ "text": "x" })).await, "x");
    }
}

#[tokio::test]
async fn hundred_concurrent_calls_get_their_own_answers() {
    for (eras, ..) in ERAS {
        let server = ServerStart::fixture(eras).connect().await;
        let calls = (0..100).map(|n| {
            let server = &server;
            async move {
                let text = format!("{n} ").repeat(n * 10 + 1);
                assert_eq!(server.text("echo", json!({ "text": text })).await, text);
            }
        });
        futures_util::future::join_all(calls).await;
    }
}

#[tokio::test]
async fn process_gets_a_minimal_environment_and_its_own_variables() {
    let folder = tempfile::tempdir().unwrap();
    let start = ServerStart::fixture(Eras::Both).stdio(|command| {
        command.env.insert("GIVEN".to_owned(), Secret::from("value"));
        command.cwd = Some(folder.path().to_owned());
    });
    let server = start.connect().await;
    let headers = |name: &str| {
        (name == "traceparent").then_some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    };
    let trace = TraceContext::extract(headers);
    let call = Outgoing { trace, ..outgoing("describe_call", json!({})) };
    let described = server.call_with(call).await.unwrap()["structured"].clone();
    assert_eq!(described["variables"], json!(["GIVEN", "LC_ALL", "PATH"]));
    assert_eq!(described["folder"], folder.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(described["process"], server.client.pid().unwrap());
    assert_eq!(described["meta"]["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(described["client"]["name"], "plexus");
}

#[tokio::test]
async fn progress_and_cancellation_work_over_a_pipe() {
    for (eras, ..) in ERAS {
        let server = ServerStart::fixture(eras).connect().await;
        let (reports, mut reported) = mpsc::unbounded_channel();
        let mut call = outgoing("slow", json!({}));
        call.progress = Some(Arc::new(move |progress| drop(reports.send(progress))));
        let cancel = call.cancel.clone();
        let cancelling = async {
            let first = tokio::time::timeout(PATIENCE, reported.recv()).await.unwrap().unwrap();
            let second = tokio::time::timeout(PATIENCE, reported.recv()).await.unwrap().unwrap();
            assert!(second.done > first.done && first.total.is_none(), "{first:?} {second:?}");
            cancel.cancel();
        };
        let (called, ()) = tokio::join!(server.call_with(call), cancelling);
        assert_eq!(called.unwrap_err(), ClientError::Cancelled, "{eras:?}");
        let cancelled = tokio::time::timeout(PATIENCE, async {
            loop {
                let described = server.call("describe_call", json!({})).await.unwrap();
                if described["structured"]["cancelledCalls"] == 1 {
                    return;
                }
            }
        });
        cancelled.await.expect("the server hears of it");
    }
}

#[tokio::test]
async fn tool_list_change_is_reported_over_a_pipe() {
    for (eras, ..) in ERAS {
        let server = ServerStart::fixture(eras).connect().await;
        assert!(!server.tools().await.contains(&"added_tool".to_owned()));
        // In the stateless era the first change may precede the subscription, which nobody waits for.
        let changed = async {
            while !server.has_changed() {
                server.call("change_tools", json!({})).await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, changed).await.expect("word of a change in time");
        // Every call adds or removes the tool.
        if !server.tools().await.contains(&"added_tool".to_owned()) {
            server.call("change_tools", json!({})).await.unwrap();
            assert!(server.tools().await.contains(&"added_tool".to_owned()));
        }
    }
}

#[tokio::test]
async fn unsupported_questions_are_refused_with_a_reason() {
    let server = ServerStart::fixture(Eras::Stateless).connect().await;
    let result = server.call("test_input_required_result_elicitation", json!({})).await.unwrap_err();
    // The hub declared no capabilities.
    assert!(matches!(result, ClientError::Rpc { code: -32021, .. }), "{result:?}");
    let server = ServerStart::fixture(Eras::Sessions).connect().await;
    let result = server.call("test_sampling", json!({ "prompt": "x" })).await;
    let error_text = format!("{result:?}");
    assert!(error_text.contains("sampling"), "{error_text}");
}

#[tokio::test]
async fn crash_during_a_call_is_reported_with_its_status() {
    let server = ServerStart::fixture(Eras::Both).connect().await;
    let waiting = server.call("slow", json!({}));
    let crash = server.call("crash", json!({}));
    let (waited, crashed) = tokio::join!(waiting, crash);
    for lost in [waited, crashed] {
        let lost = lost.unwrap_err();
        assert!(matches!(&lost, ClientError::Lost(why) if why.contains("exit status: 70")), "{lost:?}");
    }
    assert!(server.closed().await.contains("exit status: 70"));
    server.start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn standard_error_flood_blocks_nothing() {
    let server = ServerStart::fixture(Eras::Both).connect().await;
    let flooded = server.text("flood_stderr", json!({ "bytes": 4 << 20 })).await;
    assert!(flooded.starts_with("wrote "), "{flooded}");
    until("the last 200 lines are kept", async || server.start.stderr().len() == 200).await;
    assert_eq!(server.text("echo", json!({ "text": "x" })).await, "x");
}

#[tokio::test]
async fn oversized_message_ends_the_connection() {
    let mut start = ServerStart::fixture(Eras::Both);
    start.connect.settings.max_message = 100_000;
    let server = start.connect().await;
    assert_eq!(server.text("big", json!({ "bytes": 90_000 })).await.len(), 90_000);
    let lost = server.call("big", json!({ "bytes": 100_001 })).await.unwrap_err();
    assert!(matches!(&lost, ClientError::Lost(why) if why.contains("100000 bytes")), "{lost:?}");
    wait_until_dead(server.client.pid().unwrap()).await;
}

#[tokio::test]
async fn dropping_the_client_ends_its_process() {
    let server = ServerStart::fixture(Eras::Both).connect().await;
    let pid = server.client.pid().unwrap();
    drop(server.client);
    wait_until_dead(pid).await;
    server.start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn hub_shutdown_ends_the_process_cleanly() {
    let server = ServerStart::fixture(Eras::Both).connect().await;
    let drained = server.start.connect.supervisor.shutdown(PATIENCE).await;
    assert_eq!(drained.aborted, Vec::<String>::new());
    wait_until_dead(server.client.pid().unwrap()).await;
    assert_eq!(server.closed().await, "the hub is shutting down");
}

/// Open files and child processes of this process.
#[cfg(target_os = "linux")]
fn open_files_and_tasks() -> (usize, usize) {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let children = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap());
    (files, children.map(|children| children.split_whitespace().count()).sum())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_hundred_connections_leak_nothing() {
    let once = async || {
        // A server of the session era: rmcp may take seconds to end a server with a subscription.
        let server = ServerStart::fixture(Eras::Sessions).connect().await;
        assert_eq!(server.text("echo", json!({ "text": "x" })).await, "x");
        server.close().await;
        server.start.wait_for_no_tasks().await;
    };
    // Resources that the runtime opens once and keeps.
    once().await;
    let before = open_files_and_tasks();
    for _ in 0..200 {
        once().await;
    }
    assert_eq!(open_files_and_tasks(), before);
}
