//! Anthropic Messages.

use plexus_testkit::model::Wire;
use serde_json::{Value, json};

use super::{Asker, errand, joined, types};

const PATH: &str = "/v1/messages?beta=true";

fn ask(messages: Value) -> Value {
    json!({
        "model": "m",
        "max_tokens": 1000,
        "stream": true,
        "system": [{ "type": "text", "text": "Be brief." }],
        "tools": [
            { "name": "mcp__plexus__todo", "description": "", "input_schema": { "type": "object" } },
            { "name": "web_search", "type": "web_search_20250305" },
        ],
        "messages": messages,
    })
}

#[tokio::test]
async fn turn_streams_its_blocks_in_pieces() {
    let asker = Asker::start(errand()).await;
    let events = asker.stream(PATH, &ask(json!([{ "role": "user", "content": "buy milk" }]))).await;
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let expected =
        [&["message_start", "ping"][..], &block, &block, &["message_delta", "message_stop"]].concat();
    assert_eq!(types(&events), expected);
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 1_200);
    assert_eq!(joined(&events, "content_block_delta", "/delta/text"), "I write it down.");
    let opened: Vec<&Value> = events.iter().filter(|e| e["type"] == "content_block_start").collect();
    let [text, call] = opened.as_slice() else { panic!("{opened:?}") };
    assert_eq!((&text["index"], &text["content_block"]["type"]), (&json!(0), &json!("text")));
    assert_eq!((&call["index"], &call["content_block"]["name"]), (&json!(1), &json!("mcp__plexus__todo")));
    let input = joined(&events, "content_block_delta", "/delta/partial_json");
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap()["action"], "add");
    let end = &events[events.len() - 2];
    assert_eq!(
        (&end["delta"]["stop_reason"], &end["usage"]["output_tokens"]),
        (&json!("tool_use"), &json!(34))
    );
}

#[tokio::test]
async fn unstreamed_turn_and_the_result_of_its_call() {
    let asker = Asker::start(errand()).await;
    let user = json!({ "role": "user", "content": "buy milk" });
    let mut body = ask(json!([user]));
    body["stream"] = json!(false);
    let (status, first) = asker.post(PATH, &body).await;
    assert_eq!((status, &first["type"], &first["stop_reason"]), (200, &json!("message"), &json!("tool_use")));
    let call = &first["content"][1];
    assert_eq!((&call["type"], &call["input"]["action"]), (&json!("tool_use"), &json!("add")));

    let content = json!([{ "type": "text", "text": "no room" }]);
    let result =
        json!({ "type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": true });
    let assistant = json!({ "role": "assistant", "content": first["content"] });
    let answered = json!({ "role": "user", "content": [result] });
    let events = asker.stream(PATH, &ask(json!([user, assistant, answered]))).await;
    assert_eq!(joined(&events, "content_block_delta", "/delta/text"), "All done, nothing left to do.");
    asker.model.assert_played();
    let request = asker.model.request_for(1);
    assert_eq!((request.wire, request.parsed.stream), (Wire::Messages, true));
    assert_eq!(request.tools(), ["mcp__plexus__todo"]);
    assert_eq!(
        (request.parsed.messages[0].role.as_str(), request.parsed.messages[0].text.as_str()),
        ("system", "Be brief.")
    );
    let result = request.results().next().unwrap();
    assert_eq!((result.text.as_str(), result.is_error), ("no room", true));
}

#[tokio::test]
async fn counting_tokens_does_not_advance_the_script() {
    let asker = Asker::start(errand()).await;
    let body = ask(json!([{ "role": "user", "content": "buy milk" }]));
    let (status, counted) = asker.post("/v1/messages/count_tokens?beta=true", &body).await;
    assert_eq!(status, 200);
    assert!(counted["input_tokens"].as_u64().unwrap() > 10, "{counted}");
    assert!(asker.model.requests().is_empty());
}

#[tokio::test]
async fn invalid_messages_request_gets_the_reason() {
    let asker = Asker::start(errand()).await;
    let of = |block: Value| json!({ "model": "m", "messages": [{ "role": "user", "content": [block] }] });
    #[rustfmt::skip]
    let cases = [
        (json!({ "model": "m" }), "`messages` must be a list, not null"),
        (json!({ "messages": [] }), "the request: `model` must be a text, not null"),
        (json!({ "model": "m", "messages": [{ "role": "user", "content": 7 }] }), "`content` must be a list, not 7"),
        (of(json!({ "text": "untyped" })), "a block: `type` must be a text, not null"),
        (of(json!({ "type": "tool_use" })), "a tool_use: `id` must be a text, not null"),
        (of(json!({ "type": "tool_result" })), "a tool_result: `tool_use_id` must be a text, not null"),
    ];
    for (body, why) in &cases {
        let (status, answer) = asker.post(PATH, body).await;
        let kinds = (&answer["type"], &answer["error"]["type"]);
        assert_eq!((status, kinds), (400, (&json!("error"), &json!("invalid_request_error"))), "{body}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message:?} does not contain {why:?}");
    }
}
