//! Queued writes at a real hub: delivered once, in their session, with failures reported.

use plexus_testkit::{McpClient, TestProxy};
use serde_json::{Value, json};

use super::fake::{FakeHub, FakeResponse, RecordedRequest, with_note_tool};
use super::{POLL, Scene, add, in_time};

fn is_queued(answer: &Value) -> bool {
    answer["structuredContent"]["queued"] == true
}

/// The sessions of this agent at the hub.
async fn session_keys(scene: &Scene) -> Vec<String> {
    let page = scene.hub.api("/api/v1/sessions?limit=100").await;
    page["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn replayed_writes_belong_to_their_original_session() {
    let scene = Scene::ready().await;
    let client = scene.proxy.client();
    let (session, _) = client.initialize("2025-11-25").await;
    let thread = |text: &str| {
        let mut params = add(text);
        params["_meta"] = json!({ "threadId": "thread-7" });
        params
    };
    let given = client.header("plexus-session", "given-9");
    let mut piped = scene.proxy.stdio_client();
    piped.initialize("2025-06-18").await;
    let texts = async |scene: &McpClient, name: &str, params: Value| {
        (name.to_owned(), scene.modern("tools/call", params).await.result())
    };
    let mut write = async |text: &str| {
        vec![
            ("session".to_owned(), session.call("tools/call", add(text)).await.result()),
            texts(&client, "stateless", add(text)).await,
            texts(&client, "thread", thread(text)).await,
            texts(&given, "given", add(text)).await,
            ("pipes".to_owned(), piped.request("tools/call", add(text)).await["result"].clone()),
        ]
    };
    for (name, live) in write("live").await {
        assert_eq!(live["isError"], false, "{name}: {live}");
        assert!(!is_queued(&live), "{name}: {live}");
    }
    let before = session_keys(&scene).await;
    assert_eq!(before.len(), 5, "{before:?}");
    scene.disconnect_hub().await;
    for (name, queued) in write("kept").await {
        assert!(is_queued(&queued), "{name}: {queued}");
    }
    scene.reconnect_hub();
    // Each list is read by the agent that wrote it and has no queued writes.
    let list = json!({ "name": "todo", "arguments": { "action": "list" } });
    let mut read_thread = list.clone();
    read_thread["_meta"] = json!({ "threadId": "thread-7" });
    in_time("the replay", async {
        loop {
            let lists = [
                session.call("tools/call", list.clone()).await.json(),
                client.modern("tools/call", list.clone()).await.json(),
                client.modern("tools/call", read_thread.clone()).await.json(),
                given.modern("tools/call", list.clone()).await.json(),
                piped.request("tools/call", list.clone()).await,
            ];
            let texts: Vec<Vec<&str>> = lists
                .iter()
                .map(|list| {
                    let items = list["result"]["structuredContent"]["items"].as_array();
                    items.into_iter().flatten().map(|item| item["text"].as_str().unwrap()).collect()
                })
                .collect();
            if texts.iter().all(|texts| texts.len() == 2) {
                assert!(texts.iter().all(|texts| *texts == ["live", "kept"]), "{texts:?}");
                return;
            }
            assert!(texts.iter().all(|texts| texts.len() < 3), "{texts:?}");
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    assert_eq!(session_keys(&scene).await, before, "the replay created no session");
}

#[tokio::test]
async fn write_with_lost_answer_is_executed_once() {
    let scene = Scene::ready().await;
    let client = scene.proxy.client().header("plexus-session", "lossy");
    scene.wire.lose_answers();
    for text in ["a", "b", "c"] {
        let queued = client.modern("tools/call", add(text)).await.result();
        assert!(is_queued(&queued), "{queued}");
    }
    // The first write was executed: only its answer was lost.
    assert_eq!(scene.todos("lossy", 1).await[0], "a");
    scene.wire.heal();
    scene.wire.cut();
    assert_eq!(scene.todos("lossy", 3).await, ["a", "b", "c"]);
    let after = client.modern("tools/call", add("d")).await.result();
    assert!(!is_queued(&after), "{after}");
    assert_eq!(scene.todos("lossy", 4).await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn next_proxy_of_the_agent_sends_queued_writes() {
    let scene = Scene::ready().await;
    scene.disconnect_hub().await;
    let client = scene.proxy.client().header("plexus-session", "kept");
    for text in ["a", "b"] {
        assert!(is_queued(&client.modern("tools/call", add(text)).await.result()));
    }
    let Scene { hub, wire, proxy, token } = scene;
    let folder = proxy.stop().await;
    let proxy = TestProxy::start_in(folder, &wire.url(""), &token, |_| {}).await;
    let scene = Scene { hub, wire, proxy, token };
    scene.reconnect_hub();
    assert_eq!(scene.todos("kept", 2).await, ["a", "b"]);
}

#[tokio::test]
async fn undeliverable_write_is_reported_once_and_blocks_nothing() {
    let scene = Scene::ready().await;
    scene.disconnect_hub().await;
    let client = scene.proxy.client().header("plexus-session", "letters");
    let missing_item = json!({ "name": "todo", "arguments": { "action": "remove", "id": 99 } });
    let dead =
        client.modern("tools/call", missing_item).await.result()["structuredContent"]["idempotency_key"]
            .clone();
    assert!(is_queued(&client.modern("tools/call", add("after it")).await.result()));
    scene.reconnect_hub();
    assert_eq!(scene.todos("letters", 1).await, ["after it"]);
    let list = json!({ "name": "todo", "arguments": { "action": "list" } });
    let result = client.modern("tools/call", list.clone()).await.result();
    let content = result["content"].as_array().unwrap();
    assert_eq!(content.len(), 2, "{result}");
    let text = content[1]["text"].as_str().unwrap();
    assert!(text.contains(dead.as_str().unwrap()) && text.contains("there is no to-do 99"), "{text}");
    assert!(text.contains("plexus outbox"), "{text}");
    assert_eq!(result["structuredContent"]["items"][0]["text"], "after it", "the result itself is unchanged");
    let again = client.modern("tools/call", list).await.result();
    assert_eq!(again["content"].as_array().unwrap().len(), 1, "reported once: {again}");
}

#[tokio::test]
async fn rejection_by_an_intermediary_is_retried() {
    let done = |request: &RecordedRequest| request.result(json!({ "content": [], "isError": false }));
    let hub = FakeHub::start(with_note_tool(done)).await;
    let proxy = TestProxy::start(&hub.url(), "token").await;
    let client = proxy.client();
    client.modern("tools/list", json!({})).await.result();
    // A reverse proxy whose backend is stopped.
    let no_backend = || FakeResponse::Body(404, "text/plain", "404 page not found".to_owned());
    hub.answer(with_note_tool(move |_| no_backend()));
    let write = json!({ "name": "note", "arguments": { "action": "add" } });
    assert!(is_queued(&client.modern("tools/call", write.clone()).await.result()));
    let attempts = async |count: usize| {
        in_time("an attempt", async {
            while hub.requests("tools/call").len() < count {
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
    };
    attempts(2).await;
    let failed = hub.requests("tools/call").len();
    hub.answer(with_note_tool(done));
    attempts(failed + 1).await;
    // A later write of the session waits for the queued one, so its result shows that the queue is empty.
    in_time("a live write", async {
        while is_queued(&client.modern("tools/call", write.clone()).await.result()) {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    assert!(hub.requests_at("/api/v1/outbox/letters").is_empty(), "no dead letter");
}

#[tokio::test]
async fn dead_letter_is_reported_until_accepted() {
    let done = |request: &RecordedRequest| request.result(json!({ "content": [], "isError": false }));
    let hub = FakeHub::start(with_note_tool(done)).await;
    let proxy = TestProxy::start(&hub.url(), "token").await;
    proxy.client().modern("tools/list", json!({})).await.result();
    hub.answer(with_note_tool(|_| FakeResponse::Body(502, "text/plain", String::new())));
    let write = json!({ "name": "note", "arguments": { "action": "add" } });
    let queued = proxy.client().modern("tools/call", write).await.result();
    let refusing = |status: u16| {
        let calls = with_note_tool(|request: &RecordedRequest| {
            request.result(json!({ "content": [{ "type": "text", "text": "no" }], "isError": true }))
        });
        move |request: &RecordedRequest| match &*request.path {
            "/api/v1/outbox/letters" => FakeResponse::json(status, json!({ "code": "x", "message": "x" })),
            _ => calls(request),
        }
    };
    hub.answer(refusing(429));
    let wait_for_reports = async |count: usize| {
        in_time("a letter", async {
            while hub.requests_at("/api/v1/outbox/letters").len() < count {
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
        hub.requests_at("/api/v1/outbox/letters").pop().unwrap().body
    };
    wait_for_reports(1).await;
    hub.answer(refusing(200));
    let report = wait_for_reports(2).await;
    assert_eq!(report["client"], "testkit", "{report}");
    assert_eq!(report["letters"][0]["key"], queued["structuredContent"]["idempotency_key"], "{report}");
    assert_eq!(report["letters"][0]["reason"], "the tool failed: no", "{report}");
}
