//! OpenAI Chat Completions.

use plexus_testkit::model::Wire;
use plexus_testkit::{SseEvent, SseStream};
use serde_json::{Value, json};

use super::{Asker, errand};

const PATH: &str = "/v1/chat/completions";

fn ask(messages: Value) -> Value {
    let function =
        json!({ "name": "todo", "description": "keeps a list", "parameters": { "type": "object" } });
    json!({ "model": "m", "tools": [{ "type": "function", "function": function }], "messages": messages })
}

#[tokio::test]
async fn turn_streams_as_deltas_and_ends_with_done() {
    let asker = Asker::start(errand()).await;
    let mut body = ask(json!([{ "role": "user", "content": "buy milk" }]));
    body["stream"] = json!(true);
    let unasked = asker.request(PATH).json(&body).send().await.unwrap().text().await.unwrap();
    assert!(!unasked.contains("usage"), "a stream reports the usage only on request");
    body["stream_options"] = json!({ "include_usage": true });
    let response = asker.request(PATH).json(&body).send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(!text.contains("event:"), "its events have no names");
    let (chunks, end) = text.trim_end().rsplit_once("\n\n").unwrap();
    assert_eq!(end, "data: [DONE]");
    let chunks: Vec<Value> = chunks
        .split("\n\n")
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let joined = |pointer: &str| -> String {
        chunks.iter().filter_map(|chunk| chunk.pointer(pointer)?.as_str()).collect()
    };
    assert_eq!(joined("/choices/0/delta/content"), "I write it down.");
    assert_eq!(joined("/choices/0/delta/tool_calls/0/function/name"), "todo");
    let arguments: Value =
        serde_json::from_str(&joined("/choices/0/delta/tool_calls/0/function/arguments")).unwrap();
    assert_eq!(arguments["action"], "add");
    assert_eq!(joined("/choices/0/finish_reason"), "tool_calls");
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(1_234)));
}

#[tokio::test]
async fn unstreamed_turn_and_the_result_of_its_call() {
    let asker = Asker::start(errand()).await;
    let user = json!({ "role": "user", "content": "buy milk" });
    let (status, first) = asker.post(PATH, &ask(json!([user]))).await;
    assert_eq!((status, &first["object"]), (200, &json!("chat.completion")));
    let choice = &first["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "todo");

    let result = json!({ "role": "tool", "tool_call_id": call["id"], "content": "added" });
    let (_, second) = asker.post(PATH, &ask(json!([user, choice["message"], result]))).await;
    assert_eq!(second["choices"][0]["message"]["content"], "All done, nothing left to do.");
    assert_eq!(second["choices"][0]["finish_reason"], "stop");
    assert_eq!(second["choices"][0]["message"].get("tool_calls"), None);
    asker.model.assert_played();
    let request = asker.model.request_for(1);
    assert_eq!(request.wire, Wire::Chat);
    assert_eq!(request.parsed.tools[0].description, "keeps a list");
    let result = request.results().next().unwrap();
    assert_eq!((result.call_id.as_str(), result.text.as_str()), (call["id"].as_str().unwrap(), "added"));
}

#[tokio::test]
async fn invalid_chat_request_gets_the_reason() {
    let asker = Asker::start(errand()).await;
    #[rustfmt::skip]
    let cases = [
        (json!({ "model": "m" }), "`messages` must be a list, not null"),
        (json!({ "messages": [] }), "the request: `model` must be a text, not null"),
        (json!({ "model": "m", "messages": [{}] }), "a message: `role` must be a text, not null"),
        (json!({ "model": "m", "messages": [{ "role": "tool" }] }), "a message of a tool: `tool_call_id` must be a text"),
        (json!({ "model": "m", "messages": [], "tools": [{}] }), "a tool's function: `name` must be a text"),
    ];
    for (body, why) in &cases {
        let (status, answer) = asker.post(PATH, body).await;
        assert_eq!(status, 400, "{body}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message:?} does not contain {why:?}");
    }
    // Invalid JSON, on every path.
    for path in [PATH, "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"] {
        let (status, answer) = super::read(asker.request(path).body("{")).await;
        assert_eq!(status, 400, "{path}");
        assert!(answer["error"]["message"].as_str().unwrap().starts_with("the body is not JSON"), "{answer}");
        let (status, answer) = super::read(asker.request(path).body("[]")).await;
        assert_eq!(status, 400, "{path}");
        assert_eq!(answer["error"]["message"], "the body must be a JSON object, not []");
    }
}

#[tokio::test]
async fn stream_arrives_event_by_event() {
    let asker = Asker::start(errand()).await;
    let mut body = ask(json!([{ "role": "user", "content": "buy milk" }]));
    body["stream"] = json!(true);
    let mut stream = SseStream::new(asker.request(PATH).json(&body).send().await.unwrap());
    let Some(SseEvent::Message { id, json }) = stream.next().await else { panic!("no event") };
    assert_eq!((id, &json["choices"][0]["delta"]["role"]), (None, &json!("assistant")));
}
