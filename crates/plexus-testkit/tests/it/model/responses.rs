//! OpenAI Responses.

use plexus_testkit::model::{AnswerSource, Wire};
use serde_json::{Value, json};

use super::{Asker, errand, joined, types};

const PATH: &str = "/v1/responses";

fn ask(input: Value) -> Value {
    let function =
        |name: &str| json!({ "type": "function", "name": name, "parameters": { "type": "object" } });
    json!({
        "model": "scripted",
        "stream": true,
        "tools": [
            function("shell"),
            { "type": "namespace", "name": "mcp__plexus", "tools": [function("todo")] },
            { "type": "web_search" },
        ],
        "input": input,
    })
}

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
}

#[tokio::test]
async fn turn_streams_its_items_in_pieces_and_complete() {
    let asker = Asker::start(errand()).await;
    let events = asker.stream(PATH, &ask(json!([user("buy milk")]))).await;
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(types(&events), expected);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    assert_eq!(joined(&events, "response.output_text.delta", "/delta"), "I write it down.");
    let arguments = joined(&events, "response.function_call_arguments.delta", "/delta");
    let arguments: Value = serde_json::from_str(&arguments).unwrap();
    assert_eq!(arguments["action"], "add");

    let response = &events.last().unwrap()["response"];
    assert_eq!((&response["status"], &response["model"]), (&json!("completed"), &json!("scripted")));
    assert_eq!(response["usage"]["input_tokens"], 1_200);
    assert_eq!(response["usage"]["total_tokens"], 1_234);
    let [message, call] = response["output"].as_array().unwrap().as_slice() else { panic!("{response}") };
    assert_eq!(message["content"][0]["text"], "I write it down.");
    assert_eq!((&call["namespace"], &call["name"]), (&json!("mcp__plexus"), &json!("todo")));
    // The items completed during the stream are those of the final response.
    let done: Vec<&Value> =
        events.iter().filter(|e| e["type"] == "response.output_item.done").map(|e| &e["item"]).collect();
    assert_eq!(done, [message, call]);
}

#[tokio::test]
async fn result_advances_the_script_and_is_recorded() {
    let asker = Asker::start(errand()).await;
    let first = asker.stream(PATH, &ask(json!([user("buy milk")]))).await;
    let call = first.last().unwrap()["response"]["output"][1].clone();
    let reasoning = json!({ "type": "reasoning", "summary": [] });
    let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "added" });
    let mut second = ask(json!([user("buy milk"), reasoning, call, output]));
    second["stream"] = json!(false);
    second["instructions"] = json!("Be brief.");
    second["tool_choice"] = json!("auto");
    let (status, response) = asker.post(PATH, &second).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["object"], "response");
    assert_eq!(response["output"][0]["content"][0]["text"], "All done, nothing left to do.");

    asker.model.assert_played();
    let request = asker.model.request_for(1);
    assert_eq!((request.wire, &request.answer_source), (Wire::Responses, &AnswerSource::Turn(1)));
    assert_eq!(request.tools(), ["shell", "mcp__plexus__todo"]);
    let [system, user, assistant, _] = request.parsed.messages.as_slice() else { panic!("{request:?}") };
    assert_eq!((system.text.as_str(), user.text.as_str()), ("Be brief.", "buy milk"));
    assert_eq!(assistant.calls[0].name, "todo");
    let settings: Vec<&str> = request.parsed.settings.keys().map(String::as_str).collect();
    assert_eq!(settings, ["model", "stream", "tool_choice"]);
    let results: Vec<&str> = request.results().map(|result| result.text.as_str()).collect();
    assert_eq!(results, ["added"]);
}

#[tokio::test]
async fn invalid_responses_request_gets_the_reason() {
    let asker = Asker::start(errand()).await;
    let call = |arguments: &str| json!({ "type": "function_call", "call_id": "c", "name": "todo", "arguments": arguments });
    #[rustfmt::skip]
    let cases = [
        (json!({ "model": "m", "input": 7 }), "`input` must be a text or a list of items, not 7"),
        (json!({ "input": "hello" }), "the request: `model` must be a text, not null"),
        (json!({ "model": "m", "input": "hello", "stream": "yes" }), "`stream` must be true or false, not \"yes\""),
        (json!({ "model": "m", "input": "hello", "tools": {} }), "`tools` must be a list, not {}"),
        (json!({ "model": "m", "input": "hello", "tools": [{ "type": "function" }] }), "a tool: `name` must be a text, not null"),
        (json!({ "model": "m", "input": [{ "type": "message" }] }), "a message: `role` must be a text, not null"),
        (json!({ "model": "m", "input": [call("{")] }), "a function_call: `arguments` are not JSON"),
    ];
    for (body, why) in &cases {
        let (status, answer) = asker.post(PATH, body).await;
        assert_eq!((status, &answer["error"]["type"]), (400, &json!("invalid_request_error")), "{body}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message:?} does not contain {why:?}");
    }
    assert!(asker.model.requests().is_empty());
}
