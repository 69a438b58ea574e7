//! Questions during a call: they reach the calling client, in both eras, and no other.

use std::time::Duration;

use plexus_testkit::interactive_client::{
    REVISION_2025_06, REVISION_2025_11, accepted_form, all_capabilities, consenting_client,
};
use plexus_testkit::{
    ClientRevision, InteractiveClient, McpClient, QuestionReply, SseEvent, SseStream, TestHub,
};
use serde_json::{Value, json};

use crate::asking_tool::{NAME, add_asking_tool, form, roots};

const LONG: Duration = Duration::from_secs(60);

async fn hub() -> (TestHub, String) {
    let hub = TestHub::start().await;
    add_asking_tool(&hub, LONG);
    let token = hub.token("ann", &["call:*"]).await.token;
    (hub, token)
}

fn asking(rounds: Value) -> Value {
    json!({ "name": NAME, "arguments": { "rounds": rounds } })
}

/// Begins a call in a session that is answered by a stream.
async fn begin(client: &McpClient, id: u64, params: Value) -> SseStream {
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    client.post_stream(&body).await
}

async fn answer(client: &McpClient, id: &Value, result: Value) {
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    assert_eq!(client.post_json(&answer).await.status, 202);
}

#[tokio::test]
async fn questions_reach_the_client_and_answers_the_tool() {
    let (hub, token) = hub().await;
    let model = json!({
        "key": "m", "method": "sampling/createMessage",
        "params": { "messages": [], "maxTokens": 5 },
    });
    let page = json!({
        "key": "p", "method": "elicitation/create",
        "params": { "mode": "url", "message": "Go", "url": "https://example.com/" },
    });
    for speaks in [REVISION_2025_11, ClientRevision::Stateless] {
        let client = consenting_client(&hub, &token, speaks).await;
        let rounds = json!([[form("a"), roots("r")], [&model], [&page]]);
        let answers = client.tool_text(NAME, json!({ "rounds": rounds })).await;
        let answers: Value = serde_json::from_str(&answers).unwrap();
        assert_eq!(
            answers[0],
            json!({ "a": accepted_form("Ann"), "r": { "roots": [{ "uri": "file:///work" }] } })
        );
        assert_eq!(answers[1]["m"]["content"]["text"], "Paris", "{speaks:?}");
        assert_eq!(answers[2]["p"], json!({ "action": "accept" }), "{speaks:?}");
    }
}

#[tokio::test]
async fn forms_are_sent_only_in_revisions_with_forms() {
    let (hub, token) = hub().await;
    for (version, asked) in [("2025-11-25", true), ("2025-06-18", true), ("2025-03-26", false)] {
        let client = consenting_client(&hub, &token, ClientRevision::Session(version)).await;
        let result = client.tool(NAME, json!({ "rounds": [[form("a")]] })).await.unwrap();
        assert_eq!(result["isError"], json!(!asked), "{version}: {result}");
        let messages = client.received();
        assert_eq!(messages.len(), usize::from(asked), "{messages:?}");
        if asked {
            assert_eq!(messages[0]["params"].get("mode").is_some(), version == "2025-11-25", "{messages:?}");
        }
    }
}

#[tokio::test]
async fn undeclared_capability_is_not_used() {
    let (hub, token) = hub().await;
    let rounds = json!({ "rounds": [[form("a"), roots("r")]] });
    let only_roots = json!({ "roots": {} });
    let new = InteractiveClient::connect(&hub, &token, ClientRevision::Stateless, only_roots.clone()).await;
    let error = new.tool(NAME, rounds.clone()).await.unwrap_err();
    assert_eq!((error.status, error.code), (400, -32021), "{error:?}");
    assert_eq!(error.data, json!({ "requiredCapabilities": { "elicitation": { "form": {} } } }));
    let old = InteractiveClient::connect(&hub, &token, REVISION_2025_06, only_roots).await;
    let result = old.tool(NAME, rounds.clone()).await.unwrap();
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("cannot be asked: elicitation"), "{text}");
    assert!(new.received().is_empty() && old.received().is_empty());
}

#[tokio::test]
async fn call_in_batch_cannot_ask() {
    let (hub, token) = hub().await;
    let client = hub.mcp(&token).initialize_with("2025-03-26", &all_capabilities()).await.0;
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asking(json!([[roots("r")]])) });
    let answer = client.post_json(&json!([call])).await.json();
    assert_eq!(answer[0]["result"]["isError"], true, "{answer}");
}

#[tokio::test]
async fn questions_of_a_round_are_concurrent_and_errors_are_answers() {
    let (hub, token) = hub().await;
    let client = InteractiveClient::connect(&hub, &token, REVISION_2025_11, all_capabilities())
        .await
        .answer_after_questions(2)
        .answer_with(|method, _| match method {
            "roots/list" => QuestionReply::Error(-1, "no"),
            _ => QuestionReply::Result(json!({ "action": "decline" })),
        });
    let answers = client.tool_text(NAME, json!({ "rounds": [[form("a"), roots("r")]] })).await;
    let answers: Value = serde_json::from_str(&answers).unwrap();
    assert_eq!(answers[0], json!({ "a": { "action": "decline" }, "r": { "error": -1, "message": "no" } }));
}

#[tokio::test]
async fn question_is_sent_only_on_the_stream_of_its_call() {
    let (hub, token) = hub().await;
    let other = hub.token("bob", &["call:*"]).await.token;
    let ann = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let bob = hub.mcp(&other).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let mut other_streams = [ann.get_stream().await, bob.get_stream().await];
    let mut bobs = begin(&bob, 1, asking(json!([[form("of_bob")]]))).await;
    let mut anns = begin(&ann, 1, asking(json!([[form("of_ann")]]))).await;
    let (of_ann, of_bob) = (anns.message().await.unwrap(), bobs.message().await.unwrap());
    assert_eq!(of_ann["params"]["message"], "of_ann?");
    assert_eq!(of_bob["params"]["message"], "of_bob?");
    for stream in &mut other_streams {
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new());
    }
    // An answer counts only in the session that was asked.
    answer(&bob, &of_ann["id"], accepted_form("Bob")).await;
    answer(&bob, &of_bob["id"], accepted_form("Bob")).await;
    assert!(bobs.to_end().await[0]["result"]["content"][0]["text"].as_str().unwrap().contains("Bob"));
    assert_eq!(anns.until_quiet().await, Vec::<Value>::new(), "the question is still open");
    // An answer in another owner's session is refused.
    let intruder = hub.mcp(&other).header("mcp-session-id", ann.session_id().unwrap());
    let forged = json!({ "jsonrpc": "2.0", "id": of_ann["id"], "result": accepted_form("Bob") });
    assert_eq!(intruder.post_json(&forged).await.status, 404);
    answer(&ann, &json!("plexus-99"), accepted_form("Nobody")).await;
    answer(&ann, &of_ann["id"], accepted_form("Ann")).await;
    // Only the first answer counts.
    answer(&ann, &of_ann["id"], accepted_form("Eve")).await;
    assert!(anns.to_end().await[0]["result"]["content"][0]["text"].as_str().unwrap().contains("Ann"));
}

#[tokio::test]
async fn cancelled_call_withdraws_its_question() {
    let hub = TestHub::start().await;
    let runs = add_asking_tool(&hub, LONG);
    let token = hub.token("ann", &["call:*"]).await.token;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let mut stream = begin(&client, 7, asking(json!([[form("a")]]))).await;
    let question = stream.message().await.unwrap();
    let params = json!({ "requestId": 7 });
    client
        .post_json(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
        .await;
    let rest = stream.to_end().await;
    assert_eq!(rest.len(), 1, "no answer to the cancelled request: {rest:?}");
    assert_eq!(rest[0]["method"], "notifications/cancelled");
    assert_eq!(rest[0]["params"], json!({ "requestId": question["id"] }));
    runs.wait_for_end_of(1).await;
    assert_eq!(hub.outcome_of(NAME).await, "cancelled");
}

#[tokio::test]
async fn unanswered_question_expires() {
    let hub = TestHub::start_answering(|options| options.question_timeout = Duration::from_millis(300)).await;
    add_asking_tool(&hub, LONG);
    let token = hub.token("ann", &["call:*"]).await.token;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let stream = begin(&client, 1, asking(json!([[form("a")]]))).await;
    let messages = stream.to_end().await;
    let methods: Vec<_> = messages.iter().map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, [Some("elicitation/create"), Some("notifications/cancelled"), None]);
    let text = messages[2]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("nobody answered in time"), "{text}");
}

#[tokio::test]
async fn call_deadline_pauses_during_a_question() {
    let hub = TestHub::start().await;
    add_asking_tool(&hub, Duration::from_secs(1));
    let token = hub.token("ann", &["call:*"]).await.token;
    for speaks in [REVISION_2025_11, ClientRevision::Stateless] {
        let client =
            InteractiveClient::connect(&hub, &token, speaks, all_capabilities()).await.answer_with(|_, _| {
                std::thread::sleep(Duration::from_millis(1_500));
                QuestionReply::Result(accepted_form("Ann"))
            });
        let arguments = json!({ "rounds": [[form("a")]] });
        assert!(client.tool_text(NAME, arguments).await.contains("Ann"), "{speaks:?}");
        let client = consenting_client(&hub, &token, speaks).await;
        let arguments = json!({ "rounds": [[form("a")]], "work_ms": 5_000 });
        let result = client.tool(NAME, arguments).await.unwrap();
        assert_eq!(result["_meta"]["plexus/error"]["code"], "deadline_exceeded", "{speaks:?}: {result}");
    }
}

#[tokio::test]
async fn resumed_stream_repeats_the_question() {
    let (hub, token) = hub().await;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let mut stream = begin(&client, 1, asking(json!([[form("a")]]))).await;
    let Some(SseEvent::Priming { id }) = stream.next().await else { panic!("an id to come back with") };
    drop(stream);
    let mut stream = client.header("last-event-id", &id).get_stream().await;
    let question = stream.message().await.unwrap();
    answer(&client, &question["id"], accepted_form("Ann")).await;
    assert!(
        stream.message().await.unwrap()["result"]["content"][0]["text"].as_str().unwrap().contains("Ann")
    );
}

#[tokio::test]
async fn evicted_session_with_a_running_call_is_found_again() {
    let hub = TestHub::start_answering(|options| options.sessions = 1).await;
    add_asking_tool(&hub, LONG);
    let token = hub.token("ann", &["call:*"]).await.token;
    let other_streams = async || {
        for _ in 0..4 {
            let other = hub.mcp(&token).initialize("2025-11-25").await.0;
            // Frequent use of other sessions must not prevent caching a new one.
            for _ in 0..16 {
                other.call("ping", json!({})).await.result();
            }
        }
        // Counting also applies the cache limit.
        assert_eq!(hub.api("/api/v1/status").await["mcp_sessions"], 1);
    };
    other_streams().await;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let mut stream = begin(&client, 1, asking(json!([[form("a")], [form("b")]]))).await;
    let Some(SseEvent::Priming { id }) = stream.next().await else { panic!("an id to come back with") };
    other_streams().await;
    let question = stream.message().await.unwrap();
    answer(&client, &question["id"], accepted_form("Ann")).await;
    assert_eq!(stream.message().await.unwrap()["params"]["message"], "b?");
    drop(stream);
    other_streams().await;
    let mut stream = client.header("last-event-id", &id).get_stream().await;
    assert_eq!(stream.message().await.unwrap(), question);
    let question = stream.message().await.unwrap();
    other_streams().await;
    answer(&client, &question["id"], accepted_form("Eve")).await;
    assert!(stream.to_end().await[0]["result"]["content"][0]["text"].as_str().unwrap().contains("Eve"));
    // An ended session is not found, although its stream still references it.
    let stream = begin(&client, 2, asking(json!([[form("c")]]))).await;
    assert_eq!(client.delete().await.status, 204);
    assert_eq!(client.call("ping", json!({})).await.error().0, 404);
    drop(stream);
}

#[tokio::test]
async fn stream_limit_refuses_new_streams_and_questions() {
    let hub = TestHub::start().await;
    let runs = add_asking_tool(&hub, LONG);
    let token = hub.token("ann", &["call:*"]).await.token;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    client.call("logging/setLevel", json!({ "level": "info" })).await.result();
    let (listener, body) =
        hub.mcp(&token).modern_request(1, "subscriptions/listen", json!({ "notifications": {} }));
    let mut streams = Vec::new();
    for _ in 0..128 {
        streams.push(listener.post_stream(&body).await);
    }
    let call = async |mut params: Value, log: Value| {
        params["arguments"]["log"] = log;
        client.call("tools/call", params).await
    };
    let logged = call(asking(json!([])), json!(["error"])).await.result();
    assert_eq!(logged["isError"], false, "{logged}");
    let asked = call(asking(json!([[form("a")]])), json!(["error"])).await.result();
    let text = asked["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("too many open streams"), "{text}");
    assert_eq!(runs.started_calls(), 2);
    let mut streamed = asking(json!([]));
    streamed["_meta"] = json!({ "progressToken": 1 });
    assert_eq!(call(streamed, json!([])).await.error().0, 429);
    assert_eq!(runs.started_calls(), 2, "a refused call does not begin");
}

#[tokio::test]
async fn capabilities_of_a_session_survive_a_restart() {
    let (hub, token) = hub().await;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let hub = hub.restart().await;
    add_asking_tool(&hub, LONG);
    let client = client.at(hub.url("/mcp"));
    let mut stream = begin(&client, 1, asking(json!([[form("a")]]))).await;
    assert_eq!(stream.message().await.unwrap()["method"], "elicitation/create");
}

#[tokio::test]
async fn answer_to_a_question_from_before_a_restart_is_ignored() {
    let (hub, token) = hub().await;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let before = begin(&client, 1, asking(json!([[form("before")]]))).await.message().await.unwrap();
    let hub = hub.restart().await;
    add_asking_tool(&hub, LONG);
    let client = client.at(hub.url("/mcp"));
    let mut stream = begin(&client, 1, asking(json!([[form("after")]]))).await;
    let after = stream.message().await.unwrap();
    assert_eq!(after["params"]["message"], "after?");
    answer(&client, &before["id"], accepted_form("Before")).await;
    assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "the question is still open");
    answer(&client, &after["id"], accepted_form("After")).await;
    assert!(stream.to_end().await[0]["result"]["content"][0]["text"].as_str().unwrap().contains("After"));
}

#[tokio::test]
async fn open_question_does_not_delay_a_stop() {
    let (hub, token) = hub().await;
    let client = hub.mcp(&token).initialize_with("2025-11-25", &all_capabilities()).await.0;
    let mut stream = begin(&client, 1, asking(json!([[form("a")]]))).await;
    stream.message().await.unwrap();
    let began = std::time::Instant::now();
    hub.stop().await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn elicitation_page_is_completed_with_its_call() {
    let (hub, token) = hub().await;
    let client = consenting_client(&hub, &token, REVISION_2025_11).await;
    let page = json!({
        "key": "p", "method": "elicitation/create",
        "params": { "mode": "url", "message": "Go", "url": "https://example.com/" },
    });
    client.tool_text(NAME, json!({ "rounds": [[page]] })).await;
    let messages = client.received();
    assert_eq!(client.methods(), ["elicitation/create", "notifications/elicitation/complete"]);
    assert_eq!(messages[0]["params"]["elicitationId"], messages[1]["params"]["elicitationId"]);
    assert!(messages[0]["params"]["elicitationId"].is_string());
}
