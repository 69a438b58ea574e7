//! What servers ask in the middle of a call.

use plexus_testkit::{InteractiveClient, QuestionReply};
use serde_json::{Value, json};

use super::matrix::AttemptOutcome;
use super::{Direction, Era, Scene, all_capabilities, answer_everything, ended, in_every_direction};

/// The parameters of the only question that a client was asked.
fn only_question(client: &InteractiveClient, method: &str) -> Value {
    let questions: Vec<Value> =
        client.received().into_iter().filter(|message| message["method"] == method).collect();
    assert_eq!(questions.len(), 1, "{:?}", client.received());
    questions[0]["params"].clone()
}

/// Calls a tool that asks, as a client that answers everything.
async fn call_and_answer(
    scene: &Scene,
    direction: Direction,
    tool: &str,
    arguments: Value,
) -> (InteractiveClient, String) {
    let client = scene.fully_capable_client(direction).await.answer_with(answer_everything);
    let text = client.tool_text(&direction.tool(tool), arguments).await;
    (client, text)
}

#[tokio::test]
async fn bridging_a_form_is_filled_in() {
    in_every_direction("elicitation, a form", async |scene, direction| {
        let (client, text) =
            call_and_answer(scene, direction, "test_elicitation", json!({ "message": "Who?" })).await;
        assert!(text.contains("action=accept") && text.contains("Ann"), "{direction:?}: {text}");
        let question = only_question(&client, "elicitation/create");
        assert_eq!(question["message"], "Who?", "{direction:?}");
        assert_eq!(question["requestedSchema"]["required"], json!(["username", "email"]), "{direction:?}");

        let declining = scene
            .fully_capable_client(direction)
            .await
            .answer_with(|_, _| QuestionReply::Result(json!({ "action": "decline" })));
        let text =
            declining.tool_text(&direction.tool("test_elicitation"), json!({ "message": "Who?" })).await;
        assert!(text.contains("action=decline"), "{direction:?}: {text}");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_person_is_sent_to_an_address() {
    in_every_direction("elicitation, an address", async |scene, direction| {
        let (client, text) = call_and_answer(scene, direction, "ask_url", json!({})).await;
        assert!(text.contains("accept"), "{direction:?}: {text}");
        let question = only_question(&client, "elicitation/create");
        assert_eq!(question["mode"], "url", "{direction:?}");
        assert_eq!(question["url"], "https://example.com/login?state=fixture", "{direction:?}");
        let has_id = question["elicitationId"].is_string();
        assert_eq!(
            has_id,
            direction.client == Era::Session,
            "{direction:?}: only sessions have an id: {question}"
        );
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_end_of_an_address_is_told_to_those_who_can_hear_it() {
    in_every_direction("`notifications/elicitation/complete`", async |scene, direction| {
        let (client, _) = call_and_answer(scene, direction, "ask_url", json!({})).await;
        let id = only_question(&client, "elicitation/create")["elicitationId"].clone();
        let completion = only_question(&client, "notifications/elicitation/complete");
        assert_eq!(completion, json!({ "elicitationId": id }), "{direction:?}");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_log_in_first_is_an_error_or_a_question() {
    in_every_direction("error -32042, \"go there first\"", async |scene, direction| {
        let tool = direction.tool("ask_url_first");
        if direction.client == Era::Session {
            // One that cannot be asked gets what the server said.
            let client = scene.client(direction, json!({ "elicitation": {} })).await;
            let error = client.tool(&tool, json!({})).await.unwrap_err();
            assert_eq!(error.code, -32042, "{error:?}");
            assert_eq!(error.data["elicitations"][0]["mode"], "url", "{error:?}");
            assert_eq!(client.tool_text(&tool, json!({})).await, "came back", "{direction:?}");
        }
        let client = scene.fully_capable_client(direction).await.answer_with(answer_everything);
        assert_eq!(client.tool_text(&tool, json!({})).await, "came back", "{direction:?}");
        assert_eq!(only_question(&client, "elicitation/create")["mode"], "url");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_clients_model_writes() {
    in_every_direction("sampling", async |scene, direction| {
        let (client, text) =
            call_and_answer(scene, direction, "test_sampling", json!({ "prompt": "Write" })).await;
        assert_eq!(text, "LLM response: written by the client's model", "{direction:?}");
        let question = only_question(&client, "sampling/createMessage");
        assert_eq!(question["messages"][0]["content"]["text"], "Write", "{direction:?}: {question}");
        assert_eq!(question["maxTokens"], 100, "{direction:?}");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_clients_model_is_given_tools() {
    in_every_direction("sampling with tools", async |scene, direction| {
        let (client, text) = call_and_answer(scene, direction, "ask_with_tools", json!({})).await;
        assert!(text.contains("written by the client's model"), "{direction:?}: {text}");
        let question = only_question(&client, "sampling/createMessage");
        assert_eq!(question["tools"][0]["name"], "weather", "{direction:?}: {question}");

        let without = json!({ "sampling": {} });
        let client = scene.client(direction, without).await.answer_with(answer_everything);
        let refused = client.tool(&direction.tool("ask_with_tools"), json!({})).await;
        assert!(client.methods().is_empty(), "{direction:?}: {:?}", client.received());
        assert!(!refused.is_ok_and(|result| result["isError"] != true), "{direction:?}: nobody was asked");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_clients_folders_are_told() {
    in_every_direction("roots", async |scene, direction| {
        let (client, text) =
            call_and_answer(scene, direction, "test_input_required_result_list_roots", json!({})).await;
        assert!(text.contains("file:///home/ann/work"), "{direction:?}: {text}");
        assert_eq!(client.methods(), ["roots/list"], "{direction:?}");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_several_questions_are_asked_at_once() {
    in_every_direction("several questions at once", async |scene, direction| {
        // In a session neither is answered before both are there.
        let client = scene
            .fully_capable_client(direction)
            .await
            .answer_with(answer_everything)
            .answer_after_questions(2);
        let text = client.tool_text(&direction.tool("ask_twice_at_once"), json!({})).await;
        assert_eq!(text.matches("Ann").count(), 2, "{direction:?}: {text}");
        let heard = client.received();
        assert_eq!(heard.len(), 2, "{direction:?}: {heard:?}");
        if direction.client == Era::Stateless && direction.upstream == Era::Stateless {
            let keys: Vec<&str> = heard.iter().filter_map(|question| question["key"].as_str()).collect();
            assert_eq!(keys, ["color", "size"], "the server's own keys");
        }
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_call_asks_one_thing_after_the_other() {
    in_every_direction("questions in rounds", async |scene, direction| {
        let (client, text) =
            call_and_answer(scene, direction, "test_input_required_result_multi_round", json!({})).await;
        assert_eq!(text.matches("Ann").count(), 2, "{direction:?}: {text}");
        let messages: Vec<Value> = client
            .received()
            .iter()
            .map(|call_and_answer| call_and_answer["params"]["message"].clone())
            .collect();
        let expected = ["Step 1: What is your name?", "Step 2: What is your favorite color?"];
        assert_eq!(json!(messages), json!(expected), "{direction:?}");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_prompt_asks_before_it_is_there() {
    in_every_direction("a question of `prompts/get`", async |scene, direction| {
        let client = scene.fully_capable_client(direction).await.answer_with(answer_everything);
        scene.listed(&client, "prompts/list", "prompts").await;
        let name = direction.tool("test_input_required_result_prompt");
        ended(client.request("prompts/get", json!({ "name": name })).await, |result| {
            let text = &result["messages"][0]["content"]["text"];
            assert_eq!(text, "This prompt is about Ann.", "{direction:?}: {result}");
            assert_eq!(
                only_question(&client, "elicitation/create")["message"],
                "What context should the prompt use?"
            );
        })
    })
    .await;
}

#[tokio::test]
async fn bridging_a_resource_asks_before_it_is_read() {
    in_every_direction("a question of `resources/read`", async |scene, direction| {
        let client = scene.fully_capable_client(direction).await.answer_with(answer_everything);
        scene.listed(&client, "resources/list", "resources").await;
        ended(client.request("resources/read", json!({ "uri": "test://asking" })).await, |result| {
            assert_eq!(result["contents"][0]["text"], "Read by Ann.", "{direction:?}: {result}");
            assert_eq!(only_question(&client, "elicitation/create")["message"], "Who wants to read?");
        })
    })
    .await;
}

#[tokio::test]
async fn bridging_a_client_that_cannot_be_asked_is_not() {
    in_every_direction("a question to a client that cannot be asked", async |scene, direction| {
        let mut outcome = Vec::new();
        for capabilities in [json!({}), json!({ "sampling": {} })] {
            let client = scene.client(direction, capabilities).await;
            let answer = client.tool(&direction.tool("test_elicitation"), json!({ "message": "Who?" })).await;
            assert!(client.received().is_empty(), "{direction:?}");
            outcome.push(match answer {
                Ok(result) => {
                    assert_eq!(direction.client, Era::Session, "{direction:?}: {result}");
                    assert_eq!(result["isError"], true, "{direction:?}: {result}");
                    let text = result["content"][0]["text"].as_str().unwrap_or_default();
                    assert!(text.contains("elicitation"), "{direction:?}: what is lacking is said: {text}");
                    AttemptOutcome::Passed
                }
                Err(error) => {
                    let lacking = &error.data["requiredCapabilities"]["elicitation"];
                    assert!(lacking.is_object() && error.status == 400, "{direction:?}: {error:?}");
                    AttemptOutcome::Refused(error.code)
                }
            });
        }
        assert_eq!(outcome[0], outcome[1], "{direction:?}");
        outcome.remove(0)
    })
    .await;
}

/// A client is not asked a question that its revision does not have, whatever capabilities it declares.
#[tokio::test]
async fn bridging_a_revision_without_a_question_is_not_asked_it() {
    use plexus_testkit::ClientRevision;
    let scene = Scene::start().await;
    for direction in Direction::ALL.into_iter().filter(|direction| direction.client == Era::Session) {
        for (version, tool, method) in [
            ("2025-03-26", "test_elicitation", "elicitation/create"),
            ("2025-06-18", "ask_url", "elicitation/create"),
            ("2025-06-18", "ask_with_tools", "sampling/createMessage"),
        ] {
            let speaks = ClientRevision::Session(version);
            let client = scene
                .client_that_speaks(direction, speaks, all_capabilities())
                .await
                .answer_with(answer_everything);
            let result = client.tool(&direction.tool(tool), json!({ "message": "Who?" })).await;
            assert!(!client.methods().contains(&method.to_owned()), "{direction:?} {version} {tool}");
            let failed = result.as_ref().map_or(true, |result| result["isError"] == true);
            assert!(failed, "{direction:?} {version} {tool}: {result:?}");
        }
    }
}
