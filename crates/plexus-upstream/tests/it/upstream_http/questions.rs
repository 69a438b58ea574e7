//! Questions and tasks of servers over HTTP, in both eras.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_testkit::{ClientRevision, InteractiveClient, QuestionReply, TestHub};
use plexus_upstream::client::{CallResponse, ClientError};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::scripted::{
    ReceivedRequest, ScriptedServer, Step, answer, event, json_answer, result, session_era, stateless_era,
    stream, text_result,
};
use super::{ConnectParams, call, expect_output, in_time, outgoing, text};
use crate::upstream::fast_timing;
use crate::upstream::questions::{ALL_CAPABILITIES, TestAnswerer, call_by};

const BOTH: [ClientRevision; 2] = [ClientRevision::Session("2025-11-25"), ClientRevision::Stateless];

fn accepting(_: &str, _: &Value) -> QuestionReply {
    QuestionReply::Result(json!({ "action": "accept", "content": { "ok": true, "name": "Ann" } }))
}

/// A hub with a fixture server behind it.
async fn hub(eras: Eras) -> (TestHub, HttpFixture) {
    let server = Fixture::new().only(eras).start().await;
    let hub = TestHub::start_timed(fast_timing()).await;
    hub.add_upstream("far", &json!({ "url": server.url() })).await;
    (hub, server)
}

async fn client(hub: &TestHub, speaks: ClientRevision, capabilities: Value) -> InteractiveClient {
    let token = hub.token("agent", &["call:*"]).await.token;
    InteractiveClient::connect(hub, &token, speaks, capabilities).await
}

#[tokio::test]
async fn http_question_reaches_the_caller_of_its_stream() {
    let server = Fixture::new().only(Eras::Sessions).start().await;
    let client = ConnectParams::to(&server.url()).with_capabilities(ALL_CAPABILITIES).connect().await;
    let go_on = Arc::new(Notify::new());
    let accept_as = |name: &str| json!({ "action": "accept", "content": { "username": name, "email": "-" } });
    let (ann, bob) =
        (TestAnswerer::answering_after(accept_as("ann"), &go_on), TestAnswerer::answering(accept_as("bob")));
    let first = client.call(call_by("ann", &ann, "test_elicitation", json!({ "message": "Ann?" })));
    let second = async {
        ann.question_arrived.notified().await;
        let result = expect_output(
            client.call(call_by("bob", &bob, "test_elicitation", json!({ "message": "Bob?" }))).await,
        );
        assert!(text(&result.unwrap()).contains("bob"));
        go_on.notify_one();
    };
    let (first, ()) = in_time(async { tokio::join!(first, second) }).await;
    assert!(text(&expect_output(first).unwrap()).contains("ann"));
    assert_eq!((ann.questions().len(), bob.questions().len()), (1, 1));
    assert_eq!(bob.questions()[0].1["message"], "Bob?");
}

/// A server that asks on the stream of its session, and answers calls when told to.
async fn asks_on_session_stream(question: &Arc<Notify>, done: &Arc<Notify>) -> ScriptedServer {
    let (question, done) = (question.clone(), done.clone());
    let roots_request = json!({ "jsonrpc": "2.0", "id": "g1", "method": "roots/list" });
    ScriptedServer::start(move |request: &ReceivedRequest| match request.message_method() {
        "GET" => {
            let mut steps = stream("");
            steps.push(Step::Wait(question.clone()));
            steps.push(Step::Send(event(&roots_request).into_bytes()));
            steps.push(Step::Stall);
            steps
        }
        "tools/call" => {
            let mut steps = json_answer(200, "", &result(request, &text_result("done")));
            steps.insert(0, Step::Wait(done.clone()));
            steps
        }
        _ => session_era(request),
    })
    .await
}

#[tokio::test]
async fn session_stream_question_reaches_the_only_caller() {
    let (question, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = asks_on_session_stream(&question, &done).await;
    let client = ConnectParams::to(&server.url()).with_capabilities(ALL_CAPABILITIES).connect().await;
    let ann = TestAnswerer::answering(json!({ "roots": [{ "uri": "file:///ann" }] }));
    let called = client.call(call_by("ann", &ann, "echo", json!({})));
    let asking = async {
        server.wait_for_requests("tools/call", 1).await;
        question.notify_one();
        let answer = server.wait_for_request(|request| request.body["id"] == "g1").await;
        assert_eq!(answer.body["result"]["roots"][0]["uri"], "file:///ann", "{answer:?}");
        done.notify_one();
    };
    let (called, ()) = in_time(async { tokio::join!(called, asking) }).await;
    assert_eq!(text(&expect_output(called).unwrap()), "done");
}

#[tokio::test]
async fn session_stream_question_is_refused_with_several_callers() {
    let (question, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = asks_on_session_stream(&question, &done).await;
    let client = ConnectParams::to(&server.url()).with_capabilities(ALL_CAPABILITIES).connect().await;
    let (ann, bob) =
        (TestAnswerer::answering(json!({ "roots": [] })), TestAnswerer::answering(json!({ "roots": [] })));
    let first = client.call(call_by("ann", &ann, "echo", json!({})));
    let second = client.call(call_by("bob", &bob, "echo", json!({})));
    let asking = async {
        server.wait_for_requests("tools/call", 2).await;
        question.notify_one();
        let answer = server.wait_for_request(|request| request.body["id"] == "g1").await;
        assert_eq!(answer.body["error"]["code"], -32603, "{answer:?}");
    };
    in_time(async {
        tokio::select! {
            called = first => panic!("nobody answered it: {called:?}"),
            called = second => panic!("nobody answered it: {called:?}"),
            () = asking => {}
        }
    })
    .await;
    assert_eq!((ann.questions(), bob.questions()), (vec![], vec![]));
}

#[tokio::test]
async fn session_stream_question_may_concern_a_departed_caller() {
    let (question, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = asks_on_session_stream(&question, &done).await;
    let client = ConnectParams::to(&server.url()).with_capabilities(ALL_CAPABILITIES).connect().await;
    let (ann, bob) =
        (TestAnswerer::answering(json!({ "roots": [] })), TestAnswerer::answering(json!({ "roots": [] })));
    let gives_up = call_by("ann", &ann, "echo", json!({}));
    let cancel = gives_up.cancel.clone();
    let first = client.call(gives_up);
    let second = client.call(call_by("bob", &bob, "echo", json!({})));
    let cancelled = async {
        server.wait_for_requests("tools/call", 2).await;
        cancel.cancel();
    };
    let asking = async {
        let (called, ()) = tokio::join!(first, cancelled);
        assert!(matches!(called, Err(ClientError::Cancelled)), "{called:?}");
        question.notify_one();
        let answer = server.wait_for_request(|request| request.body["id"] == "g1").await;
        assert_eq!(answer.body["error"]["code"], -32603, "{answer:?}");
    };
    in_time(async {
        tokio::select! {
            called = second => panic!("nobody answered it: {called:?}"),
            () = asking => {}
        }
    })
    .await;
    assert_eq!((ann.questions(), bob.questions()), (vec![], vec![]));
}

#[tokio::test]
async fn call_with_a_question_is_not_resent_in_a_new_session() {
    let (question, session_lost) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (send_question, forget_session) = (question.clone(), session_lost.clone());
    let server = ScriptedServer::start(move |request: &ReceivedRequest| match request.message_method() {
        "GET" => {
            let roots_request = json!({ "jsonrpc": "2.0", "id": "g1", "method": "roots/list" });
            let mut steps = stream("");
            steps.extend([
                Step::Wait(send_question.clone()),
                Step::Send(event(&roots_request).into_bytes()),
                Step::Stall,
            ]);
            steps
        }
        "tools/call" => {
            let mut steps = answer(404, "", "gone");
            steps.insert(0, Step::Wait(forget_session.clone()));
            steps
        }
        _ => session_era(request),
    })
    .await;
    let client = ConnectParams::to(&server.url()).with_capabilities(ALL_CAPABILITIES).connect().await;
    let ann = TestAnswerer::answering(json!({ "roots": [] }));
    let called = client.call(call_by("ann", &ann, "echo", json!({})));
    let asking = async {
        server.wait_for_requests("tools/call", 1).await;
        question.notify_one();
        server.wait_for_request(|request| request.body["id"] == "g1").await;
        session_lost.notify_one();
    };
    let (called, ()) = in_time(async { tokio::join!(called, asking) }).await;
    assert!(matches!(called, Err(ClientError::Lost(_))), "{called:?}");
    assert_eq!((server.count("tools/call"), server.count("initialize")), (1, 1));
}

#[tokio::test]
async fn questions_of_lost_and_new_sessions_are_not_mixed() {
    let (question, sessions) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let send_question = question.clone();
    let roots_request = json!({ "jsonrpc": "2.0", "id": "g1", "method": "roots/list" });
    let server = ScriptedServer::start(move |request: &ReceivedRequest| {
        let is_first = request.header("mcp-session-id") == Some("s-1");
        match request.message_method() {
            "initialize" => {
                let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
                let welcome = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "scripted", "version": "1" } });
                json_answer(200, &format!("mcp-session-id: s-{number}\r\n"), &result(request, &welcome))
            }
            "GET" if is_first => {
                let mut steps = stream("");
                steps.extend([
                    Step::Wait(send_question.clone()),
                    Step::Send(event(&roots_request).into_bytes()),
                    Step::Stall,
                ]);
                steps
            }
            "tools/call" if request.body["params"]["name"] == "slow" => vec![Step::Stall],
            "tools/call" if is_first => answer(404, "", "gone"),
            "tools/call" => {
                let mut steps = stream(&event(&roots_request));
                steps.push(Step::Stall);
                steps
            }
            _ => session_era(request),
        }
    })
    .await;
    let client = ConnectParams::to(&server.url()).with_capabilities(ALL_CAPABILITIES).connect().await;
    let release = Arc::new(Notify::new());
    let ann = TestAnswerer::answering_after(json!({ "roots": [{ "uri": "file:///ann" }] }), &release);
    let bob = TestAnswerer::answering(json!({ "roots": [{ "uri": "file:///bob" }] }));
    let first = client.call(call_by("ann", &ann, "slow", json!({})));
    let second = async {
        server.wait_for_requests("tools/call", 1).await;
        question.notify_one();
        ann.question_arrived.notified().await;
        client.call(call_by("bob", &bob, "echo", json!({}))).await
    };
    let answered = async {
        bob.question_arrived.notified().await;
        release.notify_one();
        server.wait_for_request(|request| request.body["id"] == "g1").await
    };
    let answer = in_time(async {
        tokio::select! {
            called = first => panic!("nobody answered it: {called:?}"),
            called = second => panic!("nobody answered it: {called:?}"),
            answer = answered => answer,
        }
    })
    .await;
    assert_eq!(answer.body["result"]["roots"][0]["uri"], "file:///bob", "{answer:?}");
    assert_eq!(answer.header("mcp-session-id"), Some("s-2"));
}

#[tokio::test]
async fn call_with_missing_headers_is_resent_after_relisting() {
    let server = ScriptedServer::start(|request: &ReceivedRequest| match request.message_method() {
        "tools/list" => {
            let region = json!({ "type": "string", "x-mcp-header": "Region" });
            let schema = json!({ "type": "object", "properties": { "region": region } });
            let tools = json!([{ "name": "echo", "inputSchema": schema }]);
            json_answer(200, "", &result(request, &json!({ "resultType": "complete", "tools": tools })))
        }
        "tools/call" if request.header("mcp-param-region").is_none() => {
            let error = json!({ "code": -32020, "message": "Mcp-Param-Region is missing" });
            json_answer(400, "", &json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error }))
        }
        _ => stateless_era(request),
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    // The tools were never listed.
    call(&client, "echo", json!({ "region": "north" })).await.unwrap();
    assert_eq!(server.count("tools/call"), 2);
    // It is resent once, not repeatedly.
    let refused = call(&client, "echo", json!({})).await.unwrap_err();
    assert!(matches!(refused, ClientError::Rpc { code: -32020, .. }), "{refused:?}");
    assert_eq!(server.count("tools/call"), 4);
}

#[tokio::test]
async fn stateless_server_asks_only_declared_capabilities() {
    let server = Fixture::new().only(Eras::Stateless).start().await;
    let client = ConnectParams::to(&server.url()).connect().await;
    let ann = TestAnswerer::answering(json!({}));
    let call = call_by("ann", &ann, "test_input_required_result_multiple_inputs", json!({}));
    let CallResponse::Ask { questions, state } = in_time(client.call(call)).await.unwrap() else {
        panic!("asks")
    };
    let keys: Vec<&str> = questions.iter().map(|question| question.key.as_str()).collect();
    assert_eq!(keys, ["client_roots", "greeting", "user_name"]);
    assert!(state.is_some());
    let refused = in_time(client.call(outgoing("test_missing_capability", json!({})))).await.unwrap_err();
    assert!(matches!(refused, ClientError::Rpc { code: -32021, .. }), "{refused:?}");
}

#[tokio::test]
async fn task_of_a_server_is_followed_for_every_client() {
    let (hub, _server) = hub(Eras::Stateless).await;
    for speaks in BOTH {
        let client = client(&hub, speaks, json!({ "elicitation": {} })).await.answer_with(accepting);
        let done = client.tool_text("mcp__far__own_task", json!({ "ms": 100 })).await;
        assert_eq!(done, "done as a task: null", "{speaks:?}");
        let answered = client.tool_text("mcp__far__own_task", json!({ "ms": 1, "ask": true })).await;
        assert!(answered.contains(r#""action":"accept""#), "{speaks:?}: {answered}");
        let failed = client.tool("mcp__far__own_task", json!({ "ms": 1, "fail": true })).await.unwrap();
        assert!(failed.to_string().contains("the task cannot be done"), "{speaks:?}: {failed}");
    }
}

#[tokio::test]
async fn url_elicitation_error_is_retried_after_the_visit() {
    let (hub, _server) = hub(Eras::Sessions).await;
    for speaks in BOTH {
        let client =
            client(&hub, speaks, json!({ "elicitation": { "url": {} } })).await.answer_with(accepting);
        assert_eq!(client.tool_text("mcp__far__ask_url_first", json!({})).await, "came back", "{speaks:?}");
        let received = client.received();
        let question = received.iter().find(|message| message["method"] == "elicitation/create");
        let question = question.unwrap_or_else(|| panic!("nothing was asked: {received:?}"));
        assert_eq!(question["params"]["mode"], "url", "{question}");
    }
}

#[tokio::test]
async fn questions_off_declares_no_capabilities() {
    let server = Fixture::new().start().await;
    let hub = TestHub::start_timed(fast_timing()).await;
    hub.add_upstream("far", &json!({ "url": server.url(), "questions": false })).await;
    for speaks in BOTH {
        let client = client(&hub, speaks, json!({ "elicitation": {} })).await;
        let described = client.tool("mcp__far__describe_call", json!({})).await.unwrap();
        let text_result =
            &described["structuredContent"]["meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*text_result, json!({}), "{speaks:?}: {described}");
    }
}
