//! Streamable HTTP against a real server of each era.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plexus_proto::api::UpstreamEra;
use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_tools::ProgressSink;
use plexus_upstream::client::{Client, ClientError, Outgoing};
use serde_json::json;

use super::{ConnectParams, call, echo, expect_output, in_time, outgoing, start_slow_call, structured, text};

const POLL: Duration = Duration::from_millis(10);

/// A server and a client of each era.
async fn each_era() -> [(HttpFixture, ConnectParams, Client, UpstreamEra); 2] {
    let mut all = Vec::new();
    for (eras, era) in [(Eras::Sessions, UpstreamEra::Session), (Eras::Stateless, UpstreamEra::Stateless)] {
        let server = Fixture::new().only(eras).start().await;
        let params = ConnectParams::to(&server.url());
        let client = params.connect().await;
        all.push((server, params, client, era));
    }
    all.try_into().ok().expect("two")
}

#[tokio::test]
async fn tools_are_listed_and_called_in_each_era() {
    for (_server, _way, client, era) in each_era().await {
        let peer = client.peer();
        assert_eq!(peer.era, era);
        assert_eq!(peer.revision, if era == UpstreamEra::Session { "2025-11-25" } else { "2026-07-28" });
        assert_eq!(peer.name, "plexus-fixture-server");
        assert!(peer.instructions.as_deref().is_some_and(|text| text.contains("echo")), "{peer:?}");
        let tools = in_time(client.list_tools()).await.unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{tools:?}");
        assert_eq!(text(&echo(&client, "Grüße").await.unwrap()), "Grüße");
        let failed = call(&client, "test_error_handling", json!({})).await.unwrap();
        assert!(failed.is_error);
        let unknown = call(&client, "no_such_tool", json!({})).await.unwrap_err();
        assert!(matches!(unknown, ClientError::Rpc { code: -32602, .. }), "{unknown:?}");
        in_time(client.ping()).await.unwrap();
        in_time(client.close()).await;
        assert!(matches!(echo(&client, "late").await, Err(ClientError::Unreachable(_))));
    }
}

#[tokio::test]
async fn newest_era_is_detected_and_a_known_one_tried_first() {
    let server = Fixture::new().start().await;
    let params = ConnectParams::to(&server.url());
    assert_eq!(params.connect().await.peer().era, UpstreamEra::Stateless);
    let params = params.with_known_era(UpstreamEra::Session);
    assert_eq!(params.connect().await.peer().era, UpstreamEra::Session);
    // The known era is outdated.
    for (eras, era) in [(Eras::Stateless, UpstreamEra::Stateless), (Eras::Sessions, UpstreamEra::Session)] {
        let server = Fixture::new().only(eras).start().await;
        for known_era in [UpstreamEra::Session, UpstreamEra::Stateless] {
            assert_eq!(
                ConnectParams::to(&server.url()).with_known_era(known_era).connect().await.peer().era,
                era,
                "{known_era:?}"
            );
        }
    }
}

#[tokio::test]
async fn requests_carry_only_the_files_headers() {
    let server = Fixture::new().start().await;
    for era in [UpstreamEra::Session, UpstreamEra::Stateless] {
        let params = ConnectParams::to(&server.url()).with_known_era(era).header("X-Api-Key", "of the file");
        let client = params.connect().await;
        let described = structured(&call(&client, "describe_call", json!({})).await.unwrap());
        let headers = described["headers"].as_object().unwrap();
        assert_eq!(headers["x-api-key"], "of the file");
        assert!(headers["user-agent"].as_str().unwrap().starts_with("plexus/"), "{headers:?}");
        assert!(!headers.contains_key("authorization"), "{headers:?}");
        let routed = era == UpstreamEra::Stateless;
        assert_eq!(
            headers.get("mcp-name").is_some_and(|name| name == "describe_call"),
            routed,
            "{headers:?}"
        );
        assert_eq!(headers.contains_key("mcp-session-id"), !routed, "{headers:?}");
        assert_eq!(described["client"]["name"], "plexus", "{described}");
    }
}

#[tokio::test]
async fn progress_arrives_in_order_at_its_caller_only() {
    for (_server, _way, client, _) in each_era().await {
        let progress: Arc<Mutex<Vec<f64>>> = Arc::default();
        let noted = progress.clone();
        let sink: ProgressSink = Arc::new(move |progress| noted.lock().unwrap().push(progress.done));
        let slow = Outgoing { progress: Some(sink), ..outgoing("slow", json!({ "ms": 100 })) };
        let output = expect_output(in_time(client.call(slow)).await).unwrap();
        assert!(text(&output).starts_with("waited "), "{output:?}");
        {
            let progress = progress.lock().unwrap();
            assert!(!progress.is_empty() && progress.is_sorted(), "{progress:?}");
        }
        call(&client, "slow", json!({ "ms": 50 })).await.unwrap();
    }
}

/// Waits until the server has seen this many cancelled calls.
async fn cancelled(client: &Client, calls: u64) {
    let counted = async {
        loop {
            let described = structured(&call(client, "describe_call", json!({})).await.unwrap());
            if described["cancelledCalls"] == calls {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    in_time(counted).await;
}

#[tokio::test]
async fn cancelled_http_call_ends_on_the_server() {
    for (_server, _way, client, _) in each_era().await {
        let (task, cancel) = start_slow_call(&client, json!({})).await;
        cancel.cancel();
        assert_eq!(task.finished().await, Err(ClientError::Cancelled));
        cancelled(&client, 1).await;
        // Dropping the call cancels it.
        let (task, _cancel) = start_slow_call(&client, json!({})).await;
        drop(task);
        cancelled(&client, 2).await;
        assert_eq!(text(&echo(&client, "still there").await.unwrap()), "still there");
    }
}

#[tokio::test]
async fn tool_list_change_is_reported_over_http() {
    for (_server, params, client, _) in each_era().await {
        let before = in_time(client.list_tools()).await.unwrap().len();
        let count_before = params.change_counter.count();
        call(&client, "change_tools", json!({})).await.unwrap();
        params.change_counter.wait_until_more_than(count_before).await;
        assert_eq!(in_time(client.list_tools()).await.unwrap().len(), before + 1);
    }
}

#[tokio::test]
async fn large_results_arrive_and_oversized_ones_are_refused() {
    let server = Fixture::new().start().await;
    for era in [UpstreamEra::Session, UpstreamEra::Stateless] {
        let client =
            ConnectParams::to(&server.url()).with_known_era(era).with_max_message(2 << 20).connect().await;
        let output = call(&client, "big", json!({ "bytes": 1 << 20 })).await.unwrap();
        assert_eq!(text(&output).len(), 1 << 20);
        let refused = call(&client, "big", json!({ "bytes": 4 << 20 })).await.unwrap_err();
        assert!(matches!(&refused, ClientError::Protocol(why) if why.contains("longer than")), "{refused:?}");
        assert_eq!(text(&echo(&client, "goes on").await.unwrap()), "goes on");
    }
}

#[tokio::test]
async fn concurrent_calls_share_connections() {
    for (_server, _way, client, _) in each_era().await {
        let calls = (0..64).map(|n| {
            let client = client.clone();
            async move { text(&echo(&client, &n.to_string()).await.unwrap()) == n.to_string() }
        });
        assert!(futures_util::future::join_all(calls).await.into_iter().all(|same| same));
    }
}

#[tokio::test]
async fn closed_client_leaves_no_tasks() {
    for (_server, params, client, _) in each_era().await {
        echo(&client, "x").await.unwrap();
        in_time(client.close()).await;
        assert_eq!(in_time(client.closed()).await, "closed by the hub");
        drop(client);
        let drained = in_time(params.supervisor.shutdown(Duration::from_secs(5))).await;
        assert_eq!(drained.aborted, Vec::<String>::new());
    }
}

#[tokio::test]
async fn dropped_client_ends_its_tasks() {
    let server = Fixture::new().only(Eras::Sessions).start().await;
    let params = ConnectParams::to(&server.url());
    drop(params.connect().await);
    let tasks_ended = async {
        while params.supervisor.count(plexus_kit::Stage::Intake) > 0 {
            tokio::time::sleep(POLL).await;
        }
    };
    in_time(tasks_ended).await;
}

#[test]
fn connect_future_is_small() {
    let connecting = Client::connect(ConnectParams::to("http://127.0.0.1:1/mcp").connect_config());
    let size = size_of_val(&connecting);
    assert!(size <= 4096, "{size} bytes");
}

/// A benchmark figure, not a limit: the machine may be busy.
#[tokio::test]
async fn two_thousand_calls_one_after_another() {
    for (_server, _way, client, era) in each_era().await {
        let start_slow_call = Instant::now();
        for _ in 0..2_000 {
            client.call(outgoing("echo", json!({ "text": "x" }))).await.unwrap();
        }
        let each = start_slow_call.elapsed() / 2_000;
        println!("{era:?}: {each:?} for each of 2,000 calls");
    }
}
