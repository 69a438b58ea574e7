//! Automatic recovery after the loss of a server, a session or a connection, and calls that stay lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plexus_testkit::FaultyLink;
use plexus_testkit::fixture::{Eras, Fixture};
use plexus_upstream::client::ClientError;
use serde_json::json;

use super::scripted::{
    End, ReceivedRequest, ScriptedServer, Step, Steps, answer, chunked_stream, event, json_answer, result,
    session_era, stream, text_result,
};
use super::{ConnectParams, call, echo, in_time, start_slow_call, text};

/// Minimum pause before a stream is resumed, whatever its server requests.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn restarted_server_is_called_transparently() {
    for eras in [Eras::Sessions, Eras::Stateless] {
        let server = Fixture::new().only(eras).start().await;
        let link = FaultyLink::to(server.address()).await;
        let params = ConnectParams::to(&link.url("/mcp"));
        let client = params.connect().await;
        echo(&client, "before").await.unwrap();
        let next = Fixture::new().only(eras).start().await;
        link.point_at(next.address());
        link.cut();
        drop(server);
        // Written at the moment of the cut: it is unknown whether it was carried out.
        let written_into_the_cut =
            async { while let Err(ClientError::Lost(_)) = echo(&client, "after").await {} };
        in_time(written_into_the_cut).await;
        let calls = (0..8).map(|_| echo(&client, "after"));
        for output in futures_util::future::join_all(calls).await {
            assert_eq!(text(&output.unwrap()), "after");
        }
        // Notifications of the new one arrive too.
        let count_before = params.change_counter.count();
        call(&client, "change_tools", json!({})).await.unwrap();
        params.change_counter.wait_until_more_than(count_before).await;
        in_time(client.close()).await;
    }
}

#[tokio::test]
async fn call_in_flight_is_lost_and_not_resent() {
    for eras in [Eras::Sessions, Eras::Stateless] {
        let server = Fixture::new().only(eras).start().await;
        let link = FaultyLink::to(server.address()).await;
        let client = ConnectParams::to(&link.url("/mcp")).connect().await;
        if eras == Eras::Stateless {
            let (task, _cancel) = start_slow_call(&client, json!({})).await;
            link.cut();
            let lost = task.finished().await;
            assert!(matches!(lost, Err(ClientError::Lost(_))), "{lost:?}");
        }
        link.lose_answers();
        let lost = echo(&client, "x").await;
        assert!(matches!(lost, Err(ClientError::Lost(_))), "{lost:?}");
        link.heal();
        assert_eq!(text(&echo(&client, "again").await.unwrap()), "again");
    }
}

#[tokio::test]
async fn call_stream_is_resumed_after_a_cut() {
    let server = Fixture::new().only(Eras::Sessions).start().await;
    let link = FaultyLink::to(server.address()).await;
    let client = ConnectParams::to(&link.url("/mcp")).connect().await;
    let (task, _cancel) = start_slow_call(&client, json!({ "ms": 1_000 })).await;
    link.cut();
    let output = task.finished().await.unwrap();
    assert!(text(&output).starts_with("waited "), "{output:?}");
}

#[tokio::test]
async fn lost_session_is_replaced_once_for_all_calls() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let start_slow_call = sessions.clone();
    let server = ScriptedServer::start(move |request| match request.message_method() {
        "initialize" => {
            let number = start_slow_call.fetch_add(1, Ordering::SeqCst) + 1;
            let welcome = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                "serverInfo": { "name": "scripted", "version": "1" } });
            json_answer(200, &format!("mcp-session-id: s-{number}\r\n"), &result(request, &welcome))
        }
        // The first session is forgotten; some servers report that with 400.
        "tools/call" if request.header("mcp-session-id") == Some("s-1") => answer(404, "", "gone"),
        "tools/call" if request.header("mcp-session-id") == Some("s-2") => {
            let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
            json_answer(400, "", &json!({ "jsonrpc": "2.0", "id": null, "error": error }))
        }
        _ => session_era(request),
    })
    .await;
    let params = ConnectParams::to(&server.url());
    let client = params.connect().await;
    let count_before = params.change_counter.count();
    // The first call finds s-1 gone and creates s-2, which is gone at once: one replacement per call is
    // enough.
    let refused = echo(&client, "x").await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(sessions.load(Ordering::SeqCst), 2);
    let calls = (0..20).map(|_| echo(&client, "x"));
    for output in futures_util::future::join_all(calls).await {
        assert_eq!(text(&output.unwrap()), "scripted");
    }
    assert_eq!(sessions.load(Ordering::SeqCst), 3, "one new session for all");
    assert!(
        params.change_counter.count() > count_before,
        "a server that forgot its sessions may have other tools"
    );
}

#[tokio::test]
async fn not_found_without_a_session_is_not_a_lost_session() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "initialize" => {
            let welcome = json!({ "protocolVersion": "2025-03-26", "capabilities": {} });
            json_answer(200, "", &result(request, &welcome))
        }
        "tools/call" => answer(404, "", "nothing here"),
        _ => session_era(request),
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    let error = echo(&client, "x").await.unwrap_err();
    assert!(matches!(&error, ClientError::Protocol(why) if why.contains("check the `url`")), "{error:?}");
    assert_eq!((server.count("tools/call"), server.count("initialize")), (1, 1));
}

#[tokio::test]
async fn idle_connection_closed_by_the_server_loses_no_call() {
    // Closes after each answer without announcing it.
    let server = ScriptedServer::start(|request| {
        let mut steps = session_era(request);
        steps.push(Step::Close);
        steps
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    let mut lost = 0;
    for _ in 0..50 {
        server.wait_until_all_closed().await;
        // Lets the runtime notice what the kernel already knows.
        tokio::task::yield_now().await;
        match echo(&client, "x").await {
            Ok(output) => assert_eq!(text(&output), "scripted"),
            // Written before the end arrived: the outcome is unknown, so it is not sent again.
            Err(error) => {
                assert!(matches!(error, ClientError::Lost(_)), "{error:?}");
                lost += 1;
            }
        }
    }
    // Without the check every second call would be lost: the one after a loss has a new connection.
    assert!(lost <= 5, "{lost} of 50 calls were lost");
    assert!(server.count("tools/call") <= 50, "nothing is sent twice");
}

#[tokio::test]
async fn sequential_calls_reuse_one_connection() {
    fn streams(request: &ReceivedRequest, end: End) -> Steps {
        match request.message_method() {
            "tools/call" => chunked_stream(&event(&result(request, &text_result("scripted"))), end),
            _ => session_era(request),
        }
    }
    // What the server says unasked is listened to on one of its own. A stream that is not over when the next call comes
    // costs another connection, but not one for each call.
    for (script, connections) in [
        (session_era as fn(&ReceivedRequest) -> Steps, 2),
        (|request| streams(request, End::WithMessage), 2),
        (|request| streams(request, End::Later), 50),
    ] {
        let server = ScriptedServer::start(script).await;
        let client = ConnectParams::to(&server.url()).connect().await;
        for _ in 0..100 {
            assert_eq!(text(&echo(&client, "x").await.unwrap()), "scripted");
        }
        assert!(server.connections() <= connections, "{}", server.connections());
    }
}

#[tokio::test]
async fn broken_stream_is_resumed_at_the_last_event() {
    let server =
        ScriptedServer::start(|request| match (request.message_method(), request.header("last-event-id")) {
            ("tools/call", _) => stream_and_close("id: e1\nretry: 10\ndata:\n\n"),
            ("GET", Some("e1")) => stream_and_close(&format!(
                "id: e2\n{}",
                event(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} }))
            )),
            ("GET", Some("e2")) => {
                // The id of the call: the only request with an id that this server has not answered.
                stream_and_close(&event(
                    &json!({ "jsonrpc": "2.0", "id": 3, "result": text_result("in the end") }),
                ))
            }
            _ => session_era(request),
        })
        .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    assert_eq!(text(&echo(&client, "x").await.unwrap()), "in the end");
    assert_eq!(server.count("tools/call"), 1);
    let ids: Vec<_> = server
        .requests()
        .iter()
        .filter_map(|request| request.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(ids, ["e1", "e2"]);
}

fn stream_and_close(events: &str) -> Steps {
    let mut steps = stream(events);
    steps.push(Step::Close);
    steps
}

#[tokio::test]
async fn stream_without_new_events_is_given_up() {
    // Without ids the stream cannot be resumed; with them resuming without progress is bounded.
    for (events, asked_again) in [("data:\n\n", 0_u32), ("id: e1\nretry: 0\ndata:\n\n", 3)] {
        let server = ScriptedServer::start(move |request| {
            match (request.message_method(), request.header("last-event-id")) {
                ("tools/call", _) => stream_and_close(events),
                ("GET", Some(_)) => stream_and_close(": nothing\n\n"),
                _ => session_era(request),
            }
        })
        .await;
        let client = ConnectParams::to(&server.url()).connect().await;
        let start_slow_call = Instant::now();
        let lost = echo(&client, "x").await;
        assert!(matches!(lost, Err(ClientError::Lost(_))), "{lost:?}");
        assert!(
            start_slow_call.elapsed() >= LEAST_PAUSE * asked_again,
            "asked again as fast as the server liked"
        );
        let resumed =
            server.requests().iter().filter(|request| request.header("last-event-id").is_some()).count();
        assert_eq!((server.count("tools/call"), resumed), (1, asked_again as usize));
    }
}

#[tokio::test]
async fn listening_stream_is_reopened_with_backoff() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "initialize" => {
            let welcome = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } } });
            json_answer(200, "mcp-session-id: s-1\r\n", &result(request, &welcome))
        }
        "GET" => stream_and_close("retry: 0\n\n"),
        _ => session_era(request),
    })
    .await;
    let start_slow_call = Instant::now();
    let _client = ConnectParams::to(&server.url()).connect().await;
    server.wait_for_requests("GET", 3).await;
    assert!(start_slow_call.elapsed() >= Duration::from_secs(2), "{:?} for three", start_slow_call.elapsed());
}
