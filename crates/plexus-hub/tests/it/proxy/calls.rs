//! Calls: which writes are queued, what the agent is told, and what passes unchanged.

use plexus_testkit::{Answer, TestProxy, messages_of};
use serde_json::{Value, json};

use super::fake::{FakeHub, FakeResponse, RecordedRequest, with_note_tool};
use super::{Scene, add, in_time};

const KEY: &str = "plexus/idempotency-key";

fn key(request: &RecordedRequest) -> String {
    request.body["params"]["_meta"][KEY].as_str().unwrap_or_default().to_owned()
}

fn done(request: &RecordedRequest) -> FakeResponse {
    request.result(json!({ "resultType": "complete", "content": [{ "type": "text", "text": "done" }], "isError": false }))
}

fn note(text: &str) -> Value {
    json!({ "name": "note", "arguments": { "action": "add", "text": text } })
}

/// The key of a write that was queued.
fn queued(answer: &Answer) -> String {
    let result = messages_of(&answer.body)[0]["result"].take();
    assert_eq!(result["isError"], false, "{result}");
    let data = &result["structuredContent"];
    assert_eq!((&data["queued"], &data["tool"]), (&json!(true), &json!("note")), "{result}");
    assert!(data["note"].as_str().unwrap().contains("Do not send it again"), "{result}");
    let key = data["idempotency_key"].as_str().unwrap().to_owned();
    assert!(result["content"][0]["text"].as_str().unwrap().contains(&key), "{result}");
    key
}

async fn ready(
    call: impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync + 'static,
) -> (FakeHub, TestProxy) {
    let hub = FakeHub::start(with_note_tool(call)).await;
    let proxy = TestProxy::start(&hub.url(), "token").await;
    proxy.client().modern("tools/list", json!({})).await.result();
    (hub, proxy)
}

#[tokio::test]
async fn only_writes_get_an_idempotency_key() {
    let (hub, proxy) = ready(done).await;
    let client = proxy.client();
    client.modern("tools/call", note("a")).await.result();
    let mut named = note("b");
    named["_meta"] = json!({ KEY: "the agent's own", "threadId": "t-1", "more": { "x": [1] } });
    named["task"] = json!({ "ttl": 1000 });
    client.modern("tools/call", named).await.result();
    let wrapped =
        json!({ "name": "tool_call", "arguments": { "name": "note", "arguments": { "action": "add" } } });
    client.modern("tools/call", wrapped).await.result();
    for read in [
        json!({ "name": "note", "arguments": { "action": "list" } }),
        json!({ "name": "note", "arguments": {} }),
        json!({ "name": "note" }),
        json!({ "name": "other", "arguments": { "action": "add" } }),
        json!({ "name": "tool_call", "arguments": { "name": "note", "arguments": { "action": "list" } } }),
        json!({ "name": "tool_call", "arguments": { "name": "tool_call", "arguments": { "name": "note", "arguments": { "action": "add" } } } }),
    ] {
        client.modern("tools/call", read).await.result();
    }
    let calls = hub.requests("tools/call");
    let keys: Vec<String> = calls.iter().map(key).collect();
    assert_eq!(keys.len(), 9);
    assert!(keys[0].len() == 36 && keys[2].len() == 36 && keys[0] != keys[2], "{keys:?}");
    assert_eq!(keys[1], "the agent's own");
    assert_eq!(keys[3..], vec![String::new(); 6], "reads carry none");
    let own = &calls[1].body["params"];
    assert_eq!((&own["_meta"]["threadId"], &own["_meta"]["more"]), (&json!("t-1"), &json!({ "x": [1] })));
    assert_eq!(own["task"], json!({ "ttl": 1000 }), "unknown members pass unchanged");
    assert_eq!(own["arguments"], json!({ "action": "add", "text": "b" }));
    assert!(own["_meta"]["io.modelcontextprotocol/clientInfo"].is_object(), "{own}");
}

#[tokio::test]
async fn unanswered_write_is_queued_with_its_key() {
    for (what, scripted) in [
        ("502", FakeResponse::Body(502, "text/html", "<h1>Bad gateway</h1>".to_owned())),
        ("503", FakeResponse::json(503, json!({ "code": "overloaded", "message": "starting" }))),
        ("504", FakeResponse::Body(504, "text/plain", String::new())),
        ("nothing", FakeResponse::NeverSent),
        ("half an answer", FakeResponse::Truncated),
        ("half a stream", FakeResponse::Body(200, "text/event-stream", ": here\n\n".to_owned())),
    ] {
        let answer = scripted.clone();
        let (hub, proxy) = ready(move |_| answer.clone()).await;
        let client = proxy.client();
        let first = queued(&client.modern("tools/call", note("first")).await);
        let sent = hub.requests("tools/call");
        assert_eq!(key(&sent[0]), first, "{what}");
        // Later writes wait behind it, in both eras.
        let (session, _) = client.initialize("2025-06-18").await;
        let again = session.header("plexus-session", sent[0].session.as_deref().unwrap());
        let second = queued(&again.call("tools/call", note("second")).await);
        let old = client.initialize("2025-03-26").await.0.call("tools/call", note("third")).await.result();
        assert!(old["content"][0]["text"].as_str().unwrap().contains("stored on this machine"), "{old}");
        assert_eq!(old["structuredContent"], Value::Null, "its revision has no structured content");
        assert!(
            hub.requests("tools/call").iter().all(|request| key(request) != second),
            "{what}: it overtook the queued write"
        );

        hub.answer(with_note_tool(done));
        in_time("the replay", async {
            while hub.requests("tools/call").iter().all(|request| key(request) != second) {
                tokio::time::sleep(super::POLL).await;
            }
        })
        .await;
        let replayed = hub.requests("tools/call").into_iter().rfind(|request| key(request) == first).unwrap();
        let params = &replayed.body["params"];
        assert_eq!(params["arguments"], json!({ "action": "add", "text": "first" }), "{what}");
        assert!(params["_meta"]["plexus/occurred-at"].is_string(), "{what}: {params}");
        assert_eq!(params["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "testkit", "{params}");
        assert_eq!(replayed.session, sent[0].session, "{what}: the same conversation");
    }
}

#[tokio::test]
async fn reads_are_refused_while_the_hub_is_unreachable() {
    let (_hub, proxy) = ready(|_| FakeResponse::Body(503, "text/plain", String::new())).await;
    let list = json!({ "name": "note", "arguments": { "action": "list" } });
    let read = proxy.client().modern("tools/call", list.clone()).await;
    assert_eq!(read.error(), (200, -32010), "{read:?}");
    assert_eq!(read.json()["error"]["data"]["retryable"], true, "{read:?}");
    let mut agent = proxy.stdio_client();
    agent.initialize("2025-11-25").await;
    let read = agent.request("tools/call", list).await;
    assert_eq!(
        (&read["error"]["code"], &read["error"]["data"]["retryable"]),
        (&json!(-32002), &json!(true)),
        "{read}"
    );
}

#[tokio::test]
async fn hub_answers_pass_unchanged() {
    let failed = json!({
        "resultType": "complete", "content": [{ "type": "text", "text": "there is no to-do 99" }], "isError": true,
        "_meta": { "plexus/error": { "code": "not_found", "retryable": false } }, "unknown": [1, null],
    });
    let result = failed.clone();
    let (hub, proxy) = ready(move |request| request.result(result.clone())).await;
    let client = proxy.client();
    assert_eq!(client.modern("tools/call", note("a")).await.result(), failed);
    for (status, code) in
        [(200, -32602), (400, -32602), (404, -32601), (409, -32000), (429, -32003), (500, -32603)]
    {
        let error = json!({ "code": code, "message": "not like that", "data": { "why": "because" } });
        let scripted = error.clone();
        hub.answer(with_note_tool(move |request| {
            FakeResponse::json(
                status,
                json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": scripted }),
            )
        }));
        let answer = client.modern("tools/call", note("b")).await;
        assert_eq!((answer.status, &answer.json()["error"]), (status, &error), "{answer:?}");
    }
    hub.answer(with_note_tool(|_| {
        FakeResponse::json(403, json!({ "code": "forbidden", "message": "not you", "hint": "ask" }))
    }));
    let refused = client.modern("tools/call", note("c")).await;
    assert_eq!(refused.json()["error"]["message"], "not you", "{refused:?}");
    assert_eq!(refused.json()["error"]["data"]["code"], "forbidden", "{refused:?}");
    let letters = proxy.folder().join("outbox.db");
    assert!(letters.exists());
    hub.answer(with_note_tool(done));
    let after = client.modern("tools/call", note("d")).await.result();
    assert_eq!(
        after["content"].as_array().unwrap().len(),
        1,
        "nothing was queued, nothing is reported: {after}"
    );
}

#[tokio::test]
async fn failed_queueing_is_reported_as_an_error() {
    let hub = FakeHub::start(with_note_tool(|_| FakeResponse::Body(502, "text/plain", String::new()))).await;
    let proxy = TestProxy::start_with(&hub.url(), "token", |options| options.limits.rows = 2).await;
    let client = proxy.client();
    client.modern("tools/list", json!({})).await.result();
    for text in ["a", "b"] {
        queued(&client.modern("tools/call", note(text)).await);
    }
    let full = client.modern("tools/call", note("c")).await;
    assert_eq!(full.error(), (200, -32010), "{full:?}");
    let error = full.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("could not be stored"), "{error}");
    assert_eq!(error["data"]["retryable"], true, "{error}");
}

#[tokio::test]
async fn session_writes_stay_in_order_across_an_outage() {
    let scene = Scene::ready().await;
    let mut agent = scene.proxy.stdio_client();
    agent.initialize("2025-11-25").await;
    let live = agent.request("tools/call", add("0")).await;
    assert_eq!(live["result"]["structuredContent"]["items"][0]["text"], "0", "{live}");
    scene.disconnect_hub().await;
    // Do not wait for the answers.
    let mut ids = Vec::new();
    for number in 1..20 {
        ids.push(agent.begin("tools/call", add(&number.to_string())).await);
    }
    for id in ids {
        let queued_answer = agent.answer(id).await;
        assert_eq!(queued_answer["result"]["structuredContent"]["queued"], true, "{queued_answer}");
    }
    scene.reconnect_hub();
    let list = json!({ "name": "todo", "arguments": { "action": "list" } });
    let all: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    in_time("the replay", async {
        loop {
            let list = agent.request("tools/call", list.clone()).await["result"]["structuredContent"].take();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let texts: Vec<&str> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
            assert!(all.iter().take(texts.len()).eq(&texts), "each once, in order: {texts:?}");
            if texts.len() == all.len() {
                return;
            }
            tokio::time::sleep(super::POLL).await;
        }
    })
    .await;
    in_time("a live answer", async {
        while agent.request("tools/call", add("more")).await["result"]["structuredContent"]["queued"] == true
        {
            tokio::time::sleep(super::POLL).await;
        }
    })
    .await;
}
