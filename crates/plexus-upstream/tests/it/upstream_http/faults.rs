//! Misbehaving servers: every call ends, gives a reason, and is sent once.

use std::time::Duration;

use plexus_kit::Stage;
use plexus_upstream::client::{Client, ClientError, Outgoing};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::scripted::{
    ReceivedRequest, ScriptedServer, Step, Steps, answer, event, json_answer, result, session_era,
    stateless_era, stream, text_result,
};
use super::{ConnectParams, call, echo, in_time, outgoing, spawn_background, text};

const POLL: Duration = Duration::from_millis(10);

/// A server of the session era with a custom answer to calls.
async fn with_calls(calls: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(move |request| {
        if request.message_method() == "tools/call" { calls(request) } else { session_era(request) }
    })
    .await
}

/// The error of a call to such a server, which must have been sent once.
async fn failure(calls: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static) -> ClientError {
    let server = with_calls(calls).await;
    let client = ConnectParams::to(&server.url()).with_max_message(1 << 20).connect().await;
    let error = echo(&client, "x").await.expect_err("no result");
    assert_eq!(server.count("tools/call"), 1, "{error:?}");
    // The failure of one call does not affect the connection.
    in_time(client.ping()).await.unwrap();
    error
}

fn sent(bytes: &str) -> Step {
    Step::Send(bytes.as_bytes().to_vec())
}

#[tokio::test]
async fn broken_connection_after_sending_loses_the_call() {
    for steps in [
        vec![Step::Close],
        vec![sent("HTTP/1.1 200 OK\r\ncontent-"), Step::Close],
        vec![
            sent("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"js"),
            Step::Close,
        ],
        vec![
            sent(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"js",
            ),
            Step::Close,
        ],
    ] {
        let error = failure(move |_| steps.clone()).await;
        assert!(matches!(error, ClientError::Lost(_)), "{error:?}");
    }
}

#[tokio::test]
async fn invalid_answer_is_a_protocol_error() {
    let html = || answer(200, "content-type: text/html\r\n", "<html>welcome</html>");
    for (steps, expected) in [
        (html(), "text/html"),
        (answer(202, "", ""), "did not answer"),
        (answer(200, "content-type: application/json\r\n", "{\"jsonrpc\":"), "not an MCP message"),
        (answer(200, "content-type: application/json\r\ncontent-encoding: gzip\r\n", "x"), "not MCP"),
        (
            json_answer(200, "", &json!({ "jsonrpc": "2.0", "id": 999_999, "result": {} })),
            "a different request",
        ),
        (json_answer(200, "", &json!([])), "not an MCP message"),
        (vec![sent("SSH-2.0-OpenSSH_9.7\r\n\r\n"), Step::Close], "not HTTP"),
        (answer(500, "", "broken"), "500"),
        (stream("data: nonsense\n\n"), "not an MCP message"),
    ] {
        let shown = format!("{steps:?}");
        let error = failure(move |_| steps.clone()).await;
        assert!(matches!(&error, ClientError::Protocol(why) if why.contains(expected)), "{shown}: {error:?}");
    }
}

#[tokio::test]
async fn endless_body_is_cut_off() {
    let piece = vec![b'x'; 64 << 10];
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ",
    ] {
        let steps = vec![sent(head), Step::Endlessly(piece.clone())];
        let error = failure(move |_| steps.clone()).await;
        assert!(
            matches!(&error, ClientError::Protocol(why) if why.contains("longer than")),
            "{head}: {error:?}"
        );
    }
    // The body of a refusal is bounded too.
    let steps = vec![sent("HTTP/1.1 500 X\r\n\r\n"), Step::Endlessly(piece.clone())];
    assert!(matches!(failure(move |_| steps.clone()).await, ClientError::Protocol(_)));
}

#[tokio::test]
async fn endless_head_is_cut_off() {
    let steps =
        vec![sent("HTTP/1.1 200 OK\r\n"), Step::Endlessly(b"x-filler: 0123456789abcdef\r\n".to_vec())];
    let error = failure(move |_| steps.clone()).await;
    assert!(matches!(error, ClientError::Protocol(_)), "{error:?}");
}

#[tokio::test]
async fn silent_server_is_bounded_by_callers_timeouts() {
    for steps in [
        vec![Step::Stall],
        vec![sent("HTTP/1.1 200 OK\r\nconte"), Step::Stall],
        vec![
            sent("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"),
            Step::Stall,
        ],
        vec![sent("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n"), Step::Stall],
        vec![sent("HTTP/1.1 500 X\r\ncontent-length: 9\r\n\r\nx"), Step::Stall],
    ] {
        let silent = steps.clone();
        let server = with_calls(move |_| silent.clone()).await;
        let client = ConnectParams::to(&server.url()).connect().await;
        let waiting = outgoing("echo", json!({}));
        let cancel = waiting.cancel.clone();
        let task = spawn_background({
            let client = client.clone();
            async move { client.call(waiting).await }
        });
        server.wait_for_request(|request| request.message_method() == "tools/call").await;
        cancel.cancel();
        assert_eq!(task.finished().await, Err(ClientError::Cancelled));
        let cancellation =
            server.wait_for_request(|request| request.message_method() == "notifications/cancelled").await;
        let call = server.wait_for_request(|request| request.message_method() == "tools/call").await;
        assert_eq!(cancellation.body["params"]["requestId"], call.body["id"]);

        // Other requests have their own time limit.
        let server = ScriptedServer::start(move |request| match request.message_method() {
            "tools/list" => steps.clone(),
            _ => session_era(request),
        })
        .await;
        let client =
            ConnectParams::to(&server.url()).with_timeout(Duration::from_millis(300)).connect().await;
        let error = in_time(client.list_tools()).await.unwrap_err();
        assert!(matches!(&error, ClientError::Lost(why) if why.contains("tools/list")), "{error:?}");
    }
}

#[tokio::test]
async fn server_that_never_completes_the_handshake_times_out() {
    let server = ScriptedServer::start(|_| vec![Step::Stall]).await;
    let refused =
        ConnectParams::to(&server.url()).with_timeout(Duration::from_millis(400)).try_connect().await;
    assert!(matches!(refused, Err(ClientError::Unreachable(_) | ClientError::Lost(_))), "{refused:?}");
}

#[tokio::test]
async fn silent_probe_falls_back_to_the_other_era_in_time() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "server/discover" => vec![Step::Stall],
        _ => session_era(request),
    })
    .await;
    let client = ConnectParams::to(&server.url()).with_timeout(Duration::from_secs(4)).connect().await;
    assert_eq!(client.peer().name, "scripted");
}

#[tokio::test]
async fn tool_error_about_sessions_is_not_a_lost_session() {
    for (code, message) in
        [(-32602, "no valid session of the shop"), (-32000, "the session of the browser is busy")]
    {
        let error = failure(move |request| {
            let error = json!({ "code": code, "message": message });
            json_answer(400, "", &json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error }))
        })
        .await;
        assert!(matches!(&error, ClientError::Rpc { code: same, .. } if *same == code), "{error:?}");
    }
}

#[tokio::test]
async fn events_with_other_names_are_ignored() {
    let server = with_calls(|request| {
        let answer = event(&result(request, &text_result("in between")));
        stream(&format!("event: ping\ndata: 2026-07-28 12:00\n\nevent: message\n{answer}"))
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    assert_eq!(text(&echo(&client, "x").await.unwrap()), "in between");
}

#[tokio::test]
async fn background_messages_end_with_timeout_or_connection() {
    for (patience, close) in [(Duration::from_millis(300), false), (Duration::from_secs(60), true)] {
        let server = ScriptedServer::start(|request| match request.message_method() {
            "tools/call" => vec![Step::Stall],
            "notifications/cancelled" => {
                vec![sent("HTTP/1.1 202 X\r\ncontent-length: 9\r\n\r\nx"), Step::Stall]
            }
            _ => session_era(request),
        })
        .await;
        let params = ConnectParams::to(&server.url()).with_timeout(patience);
        let client = params.connect().await;
        cancelled(&client, &server, 1).await;
        server.wait_for_requests("notifications/cancelled", 1).await;
        assert_eq!(params.supervisor.count(Stage::Work), 1, "somebody waits for the rest of the body");
        if close {
            drop(client);
        }
        let ended = async {
            while params.supervisor.count(Stage::Work) > 0 {
                tokio::time::sleep(POLL).await;
            }
        };
        in_time(ended).await;
    }
}

#[tokio::test]
async fn pending_cancellations_are_bounded() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "tools/call" | "notifications/cancelled" => vec![Step::Stall],
        _ => session_era(request),
    })
    .await;
    let params = ConnectParams::to(&server.url());
    let client = params.connect().await;
    cancelled(&client, &server, 200).await;
    cancelled(&client, &server, 200).await;
    let count = params.supervisor.count(Stage::Work);
    assert!((200..=256).contains(&count), "{count}");
}

/// Sends this many further calls, and cancels them when the server has received them.
async fn cancelled(client: &Client, server: &ScriptedServer, calls: usize) {
    let before = server.count("tools/call");
    let calls: Vec<_> = (0..calls).map(|_| outgoing("echo", json!({}))).collect();
    let cancels: Vec<_> = calls.iter().map(|call| call.cancel.clone()).collect();
    let client = client.clone();
    let ended = spawn_background(async move {
        futures_util::future::join_all(calls.into_iter().map(|call| client.call(call))).await
    });
    server.wait_for_requests("tools/call", before + cancels.len()).await;
    cancels.iter().for_each(CancellationToken::cancel);
    assert!(ended.finished().await.into_iter().all(|ended| ended == Err(ClientError::Cancelled)));
}

#[tokio::test]
async fn missing_credentials_are_named_in_the_error() {
    let refuse = |status: u16| {
        move |_: &ReceivedRequest| answer(status, "www-authenticate: Bearer realm=\"x\"\r\n", "no")
    };
    for (status, header, words) in [
        (401, None, ["requires credentials", "`Authorization`", "Bearer ${env:"]),
        (401, Some("Bearer old"), ["does not accept", "`Authorization`", "expired"]),
        (403, None, ["does not allow", "`Authorization`", "file"]),
        (403, Some("Bearer weak"), ["does not allow", "`Authorization`", "rights"]),
    ] {
        let server = ScriptedServer::start(refuse(status)).await;
        let mut params = ConnectParams::to(&server.url());
        if let Some(value) = header {
            params = params.header("Authorization", value);
        }
        let why = params.connect_error().await;
        assert!(words.iter().all(|expected| why.contains(expected)), "{why}");
        assert!(header.is_none_or(|value| !why.contains(value)), "{why}");
        // The handshake of the other era would not help.
        assert_eq!(server.requests().len(), 1, "{:?}", server.requests());
    }
}

#[tokio::test]
async fn only_the_servers_own_refusal_means_not_run() {
    let error = failure(|_| answer(429, "retry-after: 1\r\n", "later")).await;
    assert!(matches!(error, ClientError::Busy(_)), "{error:?}");
    // A proxy may return these for a call that has reached the server.
    for status in [502, 503, 504] {
        let error = failure(move |_| answer(status, "", "upstream")).await;
        assert!(matches!(error, ClientError::Lost(_)), "{error:?}");
    }
}

#[tokio::test]
async fn json_rpc_error_is_read_with_any_status() {
    for status in [200, 400, 404, 500] {
        let server = ScriptedServer::start(move |request| match request.message_method() {
            "tools/call" => {
                let error = json!({ "code": -32602, "message": "no such tool", "data": { "a": 1 } });
                json_answer(
                    status,
                    "",
                    &json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error }),
                )
            }
            _ => stateless_era(request),
        })
        .await;
        let client = ConnectParams::to(&server.url()).connect().await;
        let error = echo(&client, "x").await.unwrap_err();
        let data = Some(json!({ "a": 1 }));
        assert_eq!(error, ClientError::Rpc { code: -32602, message: "no such tool".to_owned(), data });
    }
}

#[tokio::test]
async fn http_questions_are_answered_or_refused() {
    let server = with_calls(|request| {
        let questions = ["ping", "sampling/createMessage"].map(|method| {
            event(&json!({ "jsonrpc": "2.0", "id": format!("q-{method}"), "method": method, "params": {} }))
        });
        stream(&format!(
            "{}{}{}",
            questions[0],
            questions[1],
            event(&result(request, &text_result("answered")))
        ))
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    assert_eq!(text(&echo(&client, "x").await.unwrap()), "answered");
    let pong = server.wait_for_request(|request| request.body["id"] == "q-ping").await;
    assert_eq!(pong.body["result"], json!({}), "{pong:?}");
    let refused = server.wait_for_request(|request| request.body["id"] == "q-sampling/createMessage").await;
    assert_eq!(refused.body["error"]["code"], -32601, "{refused:?}");
    assert_eq!(refused.header("mcp-session-id"), Some("s-1"));
}

#[tokio::test]
async fn stateless_request_repeats_name_and_arguments_in_headers() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "tools/list" => {
            let schema = json!({ "type": "object", "properties": {
                "region": { "type": "string", "x-mcp-header": "Region" } } });
            let tools = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [
                { "name": "wetter für", "inputSchema": schema },
            ] });
            json_answer(200, "", &result(request, &tools))
        }
        _ => stateless_era(request),
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    assert_eq!(in_time(client.list_tools()).await.unwrap().len(), 1);
    call(&client, "wetter für", json!({ "region": "eu-1" })).await.unwrap();
    let request = server.wait_for_request(|request| request.message_method() == "tools/call").await;
    assert_eq!(request.header("mcp-name"), Some("=?base64?d2V0dGVyIGbDvHI=?="));
    assert_eq!(request.header("mcp-param-region"), Some("eu-1"));
    assert_eq!(request.header("mcp-method"), Some("tools/call"));
    assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
}

#[tokio::test]
async fn call_cancelled_before_sending_is_not_sent() {
    let server = with_calls(|_| vec![Step::Stall]).await;
    let client = ConnectParams::to(&server.url()).connect().await;
    let call = Outgoing { ..outgoing("echo", json!({})) };
    call.cancel.cancel();
    assert_eq!(in_time(client.call(call)).await, Err(ClientError::Cancelled));
    in_time(client.ping()).await.unwrap();
    assert_eq!(server.count("tools/call") + server.count("notifications/cancelled"), 0);
}
