//! How a script is played, independent of the wire format.

use std::time::Duration;

use plexus_testkit::model::{AnswerSource, Fault, Script, Tool, Turn};
use plexus_testkit::{SseEvent, SseStream};
use serde_json::{Value, json};

use super::{Asker, errand, read};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

/// A request in Anthropic's format.
fn ask(tools: &[&str], messages: &[Value]) -> Value {
    let tools: Vec<Value> =
        tools.iter().map(|name| json!({ "name": name, "input_schema": { "type": "object" } })).collect();
    json!({ "model": "m", "tools": tools, "messages": messages })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(answer: &Value) -> Value {
    json!({ "role": "assistant", "content": answer["content"] })
}

#[tokio::test]
async fn request_without_the_scripts_tools_gets_a_neutral_answer() {
    let asker = Asker::start(errand()).await;
    for tools in [&[][..], &["Bash"], &["mytodo", "todo_list"]] {
        let (status, answer) = asker.post(MESSAGES, &ask(tools, &[user("a title, please")])).await;
        assert_eq!((status, &answer["content"][0]["text"]), (200, &json!("ok")), "{tools:?}");
    }
    assert!(asker.model.requests().iter().all(|request| request.answer_source == AnswerSource::Unscripted));
    let (_, answer) = asker.post(MESSAGES, &ask(&["Bash", "mcp__plexus__todo"], &[user("go")])).await;
    assert_eq!(answer["content"][1]["name"], "mcp__plexus__todo");
    assert_eq!(asker.model.request_for(0).answer_source, AnswerSource::Turn(0));
}

#[tokio::test]
async fn position_is_derived_from_the_conversation() {
    let script = Script::new()
        .turn(Turn::text("Hello."))
        .turn(Turn::call(Tool::named("todo"), json!({ "action": "list" })))
        .turn(Turn::text("Bye."));
    let asker = Asker::start(script).await;
    let say = async |messages: &[Value]| asker.post(MESSAGES, &ask(&["todo"], messages)).await;
    let (_, hello) = say(&[user("hi")]).await;
    assert_eq!(hello["content"][0]["text"], "Hello.");
    // A repeated request gets the same turn; a foreign answer in the conversation changes nothing.
    let (_, again) = say(&[user("hi")]).await;
    assert_eq!(again["content"], hello["content"]);
    let foreign = json!({ "role": "assistant", "content": [{ "type": "text", "text": "Pardon?" }] });
    let (_, still) = say(&[user("hi"), foreign.clone()]).await;
    assert_eq!(still["content"], hello["content"]);

    let (_, call) = say(&[user("hi"), foreign, assistant(&hello), user("what is there?")]).await;
    let tool_call = &call["content"][0];
    assert_eq!(tool_call["name"], "todo");
    // The call alone is sufficient, even if a client has shortened the earlier conversation.
    let result = json!({ "type": "tool_result", "tool_use_id": tool_call["id"], "content": "nothing" });
    let result = json!({ "role": "user", "content": [result] });
    let rest = [user("(a summary)"), assistant(&call), result];
    let (_, bye) = say(&rest).await;
    assert_eq!(bye["content"][0]["text"], "Bye.");
    asker.model.assert_played();

    let (status, over) = say(&[&rest[..], &[assistant(&bye), user("more")]].concat()).await;
    assert_eq!(status, 400);
    let why = "the script has 3 turns and all were played; the client goes on";
    assert_eq!(over["error"]["message"], why);
    assert_eq!(asker.model.requests().last().unwrap().answer_source, AnswerSource::Mismatch(why.to_owned()));
}

#[tokio::test]
async fn call_of_another_model_is_ignored() {
    let (one, other) = (Asker::start(errand()).await, Asker::start(errand()).await);
    let (_, first) = one.post(MESSAGES, &ask(&["todo"], &[user("go")])).await;
    let result =
        json!({ "type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": "added" });
    let messages = [user("go"), assistant(&first), json!({ "role": "user", "content": [result] })];
    let (_, answer) = other.post(MESSAGES, &ask(&["todo"], &messages)).await;
    assert_eq!(answer["content"][1]["name"], "todo", "it starts at its own first turn");
}

#[tokio::test]
async fn ambiguous_tool_name_is_an_error() {
    let asker = Asker::start(errand()).await;
    let (status, answer) = asker.post(MESSAGES, &ask(&["todo", "mcp__plexus__todo"], &[user("go")])).await;
    assert_eq!(status, 400);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("which could be any of todo, mcp__plexus__todo"), "{message}");
}

#[tokio::test]
async fn point_delays_the_answer_until_released() {
    let asker = Asker::start(Script::new().turn(Turn::text("At last.").paused_at("here"))).await;
    let body = ask(&[], &[user("go")]);
    let mut pending = std::pin::pin!(asker.post(MESSAGES, &body));
    tokio::select! {
        biased;
        answer = &mut pending => panic!("answered before it was released: {answer:?}"),
        () = asker.model.wait_until_reached("here") => {}
    }
    assert_eq!(asker.model.requests().len(), 1, "the request is visible while it waits");
    asker.model.release("here");
    assert_eq!(pending.await.1["content"][0]["text"], "At last.");
    // Once released, it stays released.
    assert_eq!(asker.post(MESSAGES, &body).await.0, 200);
}

#[tokio::test]
#[should_panic(expected = "the script has no point `there`")]
async fn unknown_point_panics() {
    Asker::start(errand()).await.model.release("there");
}

#[tokio::test]
async fn faults_apply_to_one_attempt_each_before_the_turn() {
    let turn = Turn::text("Third time lucky.")
        .failing(Fault::RateLimited { retry_after: Duration::from_secs(3) })
        .failing(Fault::Broken)
        .failing(Fault::Overloaded);
    let script = Script::new().turn(turn);
    for (path, body, overloaded, kind) in [
        (MESSAGES, ask(&[], &[user("go")]), 529, "overloaded_error"),
        (RESPONSES, json!({ "model": "m", "input": "go" }), 503, "server_error"),
        ("/v1/chat/completions", ask(&[], &[user("go")]), 503, "server_error"),
    ] {
        let asker = Asker::start(script.clone()).await;
        let limited = asker.request(path).json(&body).send().await.unwrap();
        assert_eq!(
            (limited.status().as_u16(), &limited.headers()["retry-after"]),
            (429, &"3".parse().unwrap())
        );
        assert_eq!(limited.json::<Value>().await.unwrap()["error"]["type"], "rate_limit_error", "{path}");
        assert_eq!(asker.post(path, &body).await.0, 500, "{path}");
        let (status, error) = asker.post(path, &body).await;
        assert_eq!((status, error["error"]["type"].as_str()), (overloaded, Some(kind)), "{path}");
        let (status, answer) = asker.post(path, &body).await;
        assert_eq!(status, 200, "{path}");
        assert!(answer.to_string().contains("Third time lucky."), "{answer}");
        let played: Vec<AnswerSource> =
            asker.model.requests().into_iter().map(|request| request.answer_source).collect();
        let fault = AnswerSource::Fault(0);
        assert_eq!(played, [fault.clone(), fault.clone(), fault, AnswerSource::Turn(0)]);
        asker.model.assert_played();
    }
}

#[tokio::test]
async fn cut_off_stream_starts_regularly_and_never_ends() {
    let asker =
        Asker::start(Script::new().turn(Turn::text("a long answer in pieces").failing(Fault::CutOff))).await;
    let mut body = json!({ "model": "m", "input": "go", "stream": true });
    let mut stream = SseStream::new(asker.request(RESPONSES).json(&body).send().await.unwrap());
    let mut event_types = Vec::new();
    while let Some(SseEvent::Message { json, .. }) = stream.next().await {
        event_types.push(json["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(event_types.first().map(String::as_str), Some("response.created"));
    assert!(!event_types.iter().any(|event| event == "response.completed"), "{event_types:?}");
    // The connection was lost, not closed: a client that reads bytes gets an error.
    let whole = Asker::start(Script::new().turn(Turn::text("a long answer").failing(Fault::CutOff))).await;
    body["stream"] = json!(false);
    let response = whole.request(RESPONSES).json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.text().await.is_err());
    assert_eq!(whole.post(RESPONSES, &body).await.0, 200, "the next attempt is answered");
}

#[tokio::test]
async fn credentials_are_not_recorded() {
    let asker = Asker::start(errand()).await;
    let request = asker.request(MESSAGES).json(&ask(&[], &[user("go")]));
    let request = request.bearer_auth("b-secret").header("x-api-key", "k-secret").header("x-app", "cli");
    assert_eq!(read(request).await.0, 200);
    let request = &asker.model.requests()[0];
    assert_eq!((request.header("authorization"), request.header("x-app")), (Some("(removed)"), Some("cli")));
    assert!(!format!("{request:?}").contains("secret"));
}

#[tokio::test]
async fn oversized_and_unknown_requests_are_refused() {
    let asker = Asker::start(errand()).await;
    let large = format!("{{\"model\":\"{}\"}}", "m".repeat(17 * 1024 * 1024));
    let (status, answer) = read(asker.request(MESSAGES).body(large)).await;
    assert_eq!((status, &answer["error"]["type"]), (413, &json!("request_too_large")));
    let (status, answer) = asker.post("/v1/embeddings", &json!({})).await;
    assert_eq!(status, 404);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("there is no POST /v1/embeddings; the scripted model has POST /v1/responses")
    );
    let models = asker.http.get(format!("{}/models", asker.model.openai_url()));
    let (status, models) = read(models).await;
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("scripted")));
}

#[tokio::test]
#[should_panic(expected = "not played as written")]
async fn unfinished_script_panics() {
    let asker = Asker::start(errand()).await;
    asker.post(MESSAGES, &ask(&["todo"], &[user("go")])).await;
    asker.model.assert_played();
}

#[tokio::test]
#[should_panic(expected = "could not be read")]
async fn unreadable_request_panics() {
    let asker = Asker::start(Script::new()).await;
    asker.post(MESSAGES, &json!({})).await;
    asker.model.assert_played();
}
