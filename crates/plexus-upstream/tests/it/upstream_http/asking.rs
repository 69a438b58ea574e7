//! Questions and tasks of servers over HTTP, in both eras.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_testkit::{ClientRevision, InteractiveClient, QuestionReply, TestHub};
use plexus_upstream::client::{ClientError, Returned};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::scripted::{
    Asked, Scripted, Step, answer, event, json_answer, result, said, session_era, stateless_era, stream,
};
use super::{Way, call, outgoing, soon, text, whole};
use crate::upstream::asking::{EVERYTHING, Person, by};
use crate::upstream::quick;

const BOTH: [ClientRevision; 2] = [ClientRevision::Session("2025-11-25"), ClientRevision::Stateless];

fn accepting(_: &str, _: &Value) -> QuestionReply {
    QuestionReply::Result(json!({ "action": "accept", "content": { "ok": true, "name": "Ann" } }))
}

/// A hub with a fixture server behind it.
async fn hub(eras: Eras) -> (TestHub, HttpFixture) {
    let server = Fixture::new().only(eras).start().await;
    let hub = TestHub::start_timed(quick()).await;
    hub.add_upstream("far", &json!({ "url": server.url() })).await;
    (hub, server)
}

async fn client(hub: &TestHub, speaks: ClientRevision, can: Value) -> InteractiveClient {
    let token = hub.token("agent", &["call:*"]).await.token;
    InteractiveClient::connect(hub, &token, speaks, can).await
}

#[tokio::test]
async fn http_question_reaches_the_caller_of_its_stream() {
    let server = Fixture::new().only(Eras::Sessions).start().await;
    let client = Way::to(&server.url()).asked(EVERYTHING).connect().await;
    let go_on = Arc::new(Notify::new());
    let says = |name: &str| json!({ "action": "accept", "content": { "username": name, "email": "-" } });
    let (ann, bob) = (Person::thinking(says("ann"), &go_on), Person::saying(says("bob")));
    let first = client.call(by("ann", &ann, "test_elicitation", json!({ "message": "Ann?" })));
    let second = async {
        ann.was_asked.notified().await;
        let asked =
            whole(client.call(by("bob", &bob, "test_elicitation", json!({ "message": "Bob?" }))).await);
        assert!(text(&asked.unwrap()).contains("bob"));
        go_on.notify_one();
    };
    let (first, ()) = soon(async { tokio::join!(first, second) }).await;
    assert!(text(&whole(first).unwrap()).contains("ann"));
    assert_eq!((ann.asked().len(), bob.asked().len()), (1, 1));
    assert_eq!(bob.asked()[0].1["message"], "Bob?");
}

/// A server that asks on the stream of its session, and answers calls when told to.
async fn asks_aside(question: &Arc<Notify>, done: &Arc<Notify>) -> Scripted {
    let (question, done) = (question.clone(), done.clone());
    let asked = json!({ "jsonrpc": "2.0", "id": "g1", "method": "roots/list" });
    Scripted::start(move |request: &Asked| match request.what() {
        "GET" => {
            let mut steps = stream("");
            steps.push(Step::Wait(question.clone()));
            steps.push(Step::Send(event(&asked).into_bytes()));
            steps.push(Step::Stall);
            steps
        }
        "tools/call" => {
            let mut steps = json_answer(200, "", &result(request, &said("done")));
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
    let server = asks_aside(&question, &done).await;
    let client = Way::to(&server.url()).asked(EVERYTHING).connect().await;
    let ann = Person::saying(json!({ "roots": [{ "uri": "file:///ann" }] }));
    let called = client.call(by("ann", &ann, "echo", json!({})));
    let asking = async {
        server.is_asked("tools/call", 1).await;
        question.notify_one();
        let answer = server.sees(|request| request.body["id"] == "g1").await;
        assert_eq!(answer.body["result"]["roots"][0]["uri"], "file:///ann", "{answer:?}");
        done.notify_one();
    };
    let (called, ()) = soon(async { tokio::join!(called, asking) }).await;
    assert_eq!(text(&whole(called).unwrap()), "done");
}

#[tokio::test]
async fn session_stream_question_is_refused_with_several_callers() {
    let (question, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = asks_aside(&question, &done).await;
    let client = Way::to(&server.url()).asked(EVERYTHING).connect().await;
    let (ann, bob) = (Person::saying(json!({ "roots": [] })), Person::saying(json!({ "roots": [] })));
    let first = client.call(by("ann", &ann, "echo", json!({})));
    let second = client.call(by("bob", &bob, "echo", json!({})));
    let asking = async {
        server.is_asked("tools/call", 2).await;
        question.notify_one();
        let answer = server.sees(|request| request.body["id"] == "g1").await;
        assert_eq!(answer.body["error"]["code"], -32603, "{answer:?}");
    };
    soon(async {
        tokio::select! {
            called = first => panic!("nobody answered it: {called:?}"),
            called = second => panic!("nobody answered it: {called:?}"),
            () = asking => {}
        }
    })
    .await;
    assert_eq!((ann.asked(), bob.asked()), (vec![], vec![]));
}

#[tokio::test]
async fn session_stream_question_may_concern_a_departed_caller() {
    let (question, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = asks_aside(&question, &done).await;
    let client = Way::to(&server.url()).asked(EVERYTHING).connect().await;
    let (ann, bob) = (Person::saying(json!({ "roots": [] })), Person::saying(json!({ "roots": [] })));
    let gives_up = by("ann", &ann, "echo", json!({}));
    let cancel = gives_up.cancel.clone();
    let first = client.call(gives_up);
    let second = client.call(by("bob", &bob, "echo", json!({})));
    let given_up = async {
        server.is_asked("tools/call", 2).await;
        cancel.cancel();
    };
    let asking = async {
        let (called, ()) = tokio::join!(first, given_up);
        assert!(matches!(called, Err(ClientError::Cancelled)), "{called:?}");
        question.notify_one();
        let answer = server.sees(|request| request.body["id"] == "g1").await;
        assert_eq!(answer.body["error"]["code"], -32603, "{answer:?}");
    };
    soon(async {
        tokio::select! {
            called = second => panic!("nobody answered it: {called:?}"),
            () = asking => {}
        }
    })
    .await;
    assert_eq!((ann.asked(), bob.asked()), (vec![], vec![]));
}

#[tokio::test]
async fn call_with_a_question_is_not_resent_in_a_new_session() {
    let (question, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (asks, forgets) = (question.clone(), gone.clone());
    let server = Scripted::start(move |request: &Asked| match request.what() {
        "GET" => {
            let asked = json!({ "jsonrpc": "2.0", "id": "g1", "method": "roots/list" });
            let mut steps = stream("");
            steps.extend([Step::Wait(asks.clone()), Step::Send(event(&asked).into_bytes()), Step::Stall]);
            steps
        }
        "tools/call" => {
            let mut steps = answer(404, "", "gone");
            steps.insert(0, Step::Wait(forgets.clone()));
            steps
        }
        _ => session_era(request),
    })
    .await;
    let client = Way::to(&server.url()).asked(EVERYTHING).connect().await;
    let ann = Person::saying(json!({ "roots": [] }));
    let called = client.call(by("ann", &ann, "echo", json!({})));
    let asking = async {
        server.is_asked("tools/call", 1).await;
        question.notify_one();
        server.sees(|request| request.body["id"] == "g1").await;
        gone.notify_one();
    };
    let (called, ()) = soon(async { tokio::join!(called, asking) }).await;
    assert!(matches!(called, Err(ClientError::Lost(_))), "{called:?}");
    assert_eq!((server.count("tools/call"), server.count("initialize")), (1, 1));
}

#[tokio::test]
async fn questions_of_lost_and_new_sessions_are_not_mixed() {
    let (question, sessions) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let asks = question.clone();
    let asked = json!({ "jsonrpc": "2.0", "id": "g1", "method": "roots/list" });
    let server = Scripted::start(move |request: &Asked| {
        let is_first = request.header("mcp-session-id") == Some("s-1");
        match request.what() {
            "initialize" => {
                let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
                let welcome = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "scripted", "version": "1" } });
                json_answer(200, &format!("mcp-session-id: s-{number}\r\n"), &result(request, &welcome))
            }
            "GET" if is_first => {
                let mut steps = stream("");
                steps.extend([Step::Wait(asks.clone()), Step::Send(event(&asked).into_bytes()), Step::Stall]);
                steps
            }
            "tools/call" if request.body["params"]["name"] == "slow" => vec![Step::Stall],
            "tools/call" if is_first => answer(404, "", "gone"),
            "tools/call" => {
                let mut steps = stream(&event(&asked));
                steps.push(Step::Stall);
                steps
            }
            _ => session_era(request),
        }
    })
    .await;
    let client = Way::to(&server.url()).asked(EVERYTHING).connect().await;
    let thinks = Arc::new(Notify::new());
    let ann = Person::thinking(json!({ "roots": [{ "uri": "file:///ann" }] }), &thinks);
    let bob = Person::saying(json!({ "roots": [{ "uri": "file:///bob" }] }));
    let first = client.call(by("ann", &ann, "slow", json!({})));
    let second = async {
        server.is_asked("tools/call", 1).await;
        question.notify_one();
        ann.was_asked.notified().await;
        client.call(by("bob", &bob, "echo", json!({}))).await
    };
    let answered = async {
        bob.was_asked.notified().await;
        thinks.notify_one();
        server.sees(|request| request.body["id"] == "g1").await
    };
    let answer = soon(async {
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
    let server = Scripted::start(|request: &Asked| match request.what() {
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
    let client = Way::to(&server.url()).connect().await;
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
    let client = Way::to(&server.url()).connect().await;
    let ann = Person::saying(json!({}));
    let call = by("ann", &ann, "test_input_required_result_multiple_inputs", json!({}));
    let Returned::Ask { questions, state } = soon(client.call(call)).await.unwrap() else { panic!("asks") };
    let keys: Vec<&str> = questions.iter().map(|question| question.key.as_str()).collect();
    assert_eq!(keys, ["client_roots", "greeting", "user_name"]);
    assert!(state.is_some());
    let refused = soon(client.call(outgoing("test_missing_capability", json!({})))).await.unwrap_err();
    assert!(matches!(refused, ClientError::Rpc { code: -32021, .. }), "{refused:?}");
}

#[tokio::test]
async fn task_of_a_server_is_followed_for_every_client() {
    let (hub, _server) = hub(Eras::Stateless).await;
    for speaks in BOTH {
        let client = client(&hub, speaks, json!({ "elicitation": {} })).await.answer_with(accepting);
        let done = client.tool_text("mcp__far__own_task", json!({ "ms": 100 })).await;
        assert_eq!(done, "done as a task: null", "{speaks:?}");
        let asked = client.tool_text("mcp__far__own_task", json!({ "ms": 1, "ask": true })).await;
        assert!(asked.contains(r#""action":"accept""#), "{speaks:?}: {asked}");
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
        let asked = client.received();
        let question = asked.iter().find(|message| message["method"] == "elicitation/create");
        let question = question.unwrap_or_else(|| panic!("nothing was asked: {asked:?}"));
        assert_eq!(question["params"]["mode"], "url", "{question}");
    }
}

#[tokio::test]
async fn questions_off_declares_no_capabilities() {
    let server = Fixture::new().start().await;
    let hub = TestHub::start_timed(quick()).await;
    hub.add_upstream("far", &json!({ "url": server.url(), "questions": false })).await;
    for speaks in BOTH {
        let client = client(&hub, speaks, json!({ "elicitation": {} })).await;
        let described = client.tool("mcp__far__describe_call", json!({})).await.unwrap();
        let said = &described["structuredContent"]["meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*said, json!({}), "{speaks:?}: {described}");
    }
}
