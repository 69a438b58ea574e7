//! What servers ask in the middle of a call.

use plexus_testkit::{InteractiveClient, QuestionReply};
use serde_json::{Value, json};

use super::matrix::Found;
use super::{Era, Scene, Way, ended, everything, in_every_way, obliging};

/// The parameters of the only question that a client was asked.
fn only_question(client: &InteractiveClient, method: &str) -> Value {
    let questions: Vec<Value> =
        client.received().into_iter().filter(|message| message["method"] == method).collect();
    assert_eq!(questions.len(), 1, "{:?}", client.received());
    questions[0]["params"].clone()
}

/// Calls a tool that asks, as a client that answers everything.
async fn asked(scene: &Scene, way: Way, tool: &str, arguments: Value) -> (InteractiveClient, String) {
    let client = scene.able(way).await.answer_with(obliging);
    let text = client.tool_text(&way.tool(tool), arguments).await;
    (client, text)
}

#[tokio::test]
async fn bridging_a_form_is_filled_in() {
    in_every_way("elicitation, a form", async |scene, way| {
        let (client, text) = asked(scene, way, "test_elicitation", json!({ "message": "Who?" })).await;
        assert!(text.contains("action=accept") && text.contains("Ann"), "{way:?}: {text}");
        let question = only_question(&client, "elicitation/create");
        assert_eq!(question["message"], "Who?", "{way:?}");
        assert_eq!(question["requestedSchema"]["required"], json!(["username", "email"]), "{way:?}");

        let declining =
            scene.able(way).await.answer_with(|_, _| QuestionReply::Result(json!({ "action": "decline" })));
        let text = declining.tool_text(&way.tool("test_elicitation"), json!({ "message": "Who?" })).await;
        assert!(text.contains("action=decline"), "{way:?}: {text}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_person_is_sent_to_an_address() {
    in_every_way("elicitation, an address", async |scene, way| {
        let (client, text) = asked(scene, way, "ask_url", json!({})).await;
        assert!(text.contains("accept"), "{way:?}: {text}");
        let question = only_question(&client, "elicitation/create");
        assert_eq!(question["mode"], "url", "{way:?}");
        assert_eq!(question["url"], "https://example.com/login?state=fixture", "{way:?}");
        let has_id = question["elicitationId"].is_string();
        assert_eq!(has_id, way.client == Era::Session, "{way:?}: only sessions have an id: {question}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_end_of_an_address_is_told_to_those_who_can_hear_it() {
    in_every_way("`notifications/elicitation/complete`", async |scene, way| {
        let (client, _) = asked(scene, way, "ask_url", json!({})).await;
        let id = only_question(&client, "elicitation/create")["elicitationId"].clone();
        let told = only_question(&client, "notifications/elicitation/complete");
        assert_eq!(told, json!({ "elicitationId": id }), "{way:?}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_log_in_first_is_an_error_or_a_question() {
    in_every_way("error -32042, \"go there first\"", async |scene, way| {
        let tool = way.tool("ask_url_first");
        if way.client == Era::Session {
            // One that cannot be asked gets what the server said.
            let client = scene.client(way, json!({ "elicitation": {} })).await;
            let error = client.tool(&tool, json!({})).await.unwrap_err();
            assert_eq!(error.code, -32042, "{error:?}");
            assert_eq!(error.data["elicitations"][0]["mode"], "url", "{error:?}");
            assert_eq!(client.tool_text(&tool, json!({})).await, "came back", "{way:?}");
        }
        let client = scene.able(way).await.answer_with(obliging);
        assert_eq!(client.tool_text(&tool, json!({})).await, "came back", "{way:?}");
        assert_eq!(only_question(&client, "elicitation/create")["mode"], "url");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_clients_model_writes() {
    in_every_way("sampling", async |scene, way| {
        let (client, text) = asked(scene, way, "test_sampling", json!({ "prompt": "Write" })).await;
        assert_eq!(text, "LLM response: written by the client's model", "{way:?}");
        let question = only_question(&client, "sampling/createMessage");
        assert_eq!(question["messages"][0]["content"]["text"], "Write", "{way:?}: {question}");
        assert_eq!(question["maxTokens"], 100, "{way:?}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_clients_model_is_given_tools() {
    in_every_way("sampling with tools", async |scene, way| {
        let (client, text) = asked(scene, way, "ask_with_tools", json!({})).await;
        assert!(text.contains("written by the client's model"), "{way:?}: {text}");
        let question = only_question(&client, "sampling/createMessage");
        assert_eq!(question["tools"][0]["name"], "weather", "{way:?}: {question}");

        let without = json!({ "sampling": {} });
        let client = scene.client(way, without).await.answer_with(obliging);
        let refused = client.tool(&way.tool("ask_with_tools"), json!({})).await;
        assert!(client.methods().is_empty(), "{way:?}: {:?}", client.received());
        assert!(!refused.is_ok_and(|result| result["isError"] != true), "{way:?}: nobody was asked");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_clients_folders_are_told() {
    in_every_way("roots", async |scene, way| {
        let (client, text) = asked(scene, way, "test_input_required_result_list_roots", json!({})).await;
        assert!(text.contains("file:///home/ann/work"), "{way:?}: {text}");
        assert_eq!(client.methods(), ["roots/list"], "{way:?}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_several_questions_are_asked_at_once() {
    in_every_way("several questions at once", async |scene, way| {
        // In a session neither is answered before both are there.
        let client = scene.able(way).await.answer_with(obliging).answer_after_questions(2);
        let text = client.tool_text(&way.tool("ask_twice_at_once"), json!({})).await;
        assert_eq!(text.matches("Ann").count(), 2, "{way:?}: {text}");
        let heard = client.received();
        assert_eq!(heard.len(), 2, "{way:?}: {heard:?}");
        if way.client == Era::Stateless && way.upstream == Era::Stateless {
            let keys: Vec<&str> = heard.iter().filter_map(|question| question["key"].as_str()).collect();
            assert_eq!(keys, ["color", "size"], "the server's own keys");
        }
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_call_asks_one_thing_after_the_other() {
    in_every_way("questions in rounds", async |scene, way| {
        let (client, text) = asked(scene, way, "test_input_required_result_multi_round", json!({})).await;
        assert_eq!(text.matches("Ann").count(), 2, "{way:?}: {text}");
        let messages: Vec<Value> =
            client.received().iter().map(|asked| asked["params"]["message"].clone()).collect();
        let expected = ["Step 1: What is your name?", "Step 2: What is your favorite color?"];
        assert_eq!(json!(messages), json!(expected), "{way:?}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_prompt_asks_before_it_is_there() {
    in_every_way("a question of `prompts/get`", async |scene, way| {
        let client = scene.able(way).await.answer_with(obliging);
        scene.listed(&client, "prompts/list", "prompts").await;
        let name = way.tool("test_input_required_result_prompt");
        ended(client.request("prompts/get", json!({ "name": name })).await, |result| {
            let text = &result["messages"][0]["content"]["text"];
            assert_eq!(text, "This prompt is about Ann.", "{way:?}: {result}");
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
    in_every_way("a question of `resources/read`", async |scene, way| {
        let client = scene.able(way).await.answer_with(obliging);
        scene.listed(&client, "resources/list", "resources").await;
        ended(client.request("resources/read", json!({ "uri": "test://asking" })).await, |result| {
            assert_eq!(result["contents"][0]["text"], "Read by Ann.", "{way:?}: {result}");
            assert_eq!(only_question(&client, "elicitation/create")["message"], "Who wants to read?");
        })
    })
    .await;
}

#[tokio::test]
async fn bridging_a_client_that_cannot_be_asked_is_not() {
    in_every_way("a question to a client that cannot be asked", async |scene, way| {
        let mut found = Vec::new();
        for capabilities in [json!({}), json!({ "sampling": {} })] {
            let client = scene.client(way, capabilities).await;
            let answer = client.tool(&way.tool("test_elicitation"), json!({ "message": "Who?" })).await;
            assert!(client.received().is_empty(), "{way:?}");
            found.push(match answer {
                Ok(result) => {
                    assert_eq!(way.client, Era::Session, "{way:?}: {result}");
                    assert_eq!(result["isError"], true, "{way:?}: {result}");
                    let text = result["content"][0]["text"].as_str().unwrap_or_default();
                    assert!(text.contains("elicitation"), "{way:?}: what is lacking is said: {text}");
                    Found::Passed
                }
                Err(error) => {
                    let lacking = &error.data["requiredCapabilities"]["elicitation"];
                    assert!(lacking.is_object() && error.status == 400, "{way:?}: {error:?}");
                    Found::Refused(error.code)
                }
            });
        }
        assert_eq!(found[0], found[1], "{way:?}");
        found.remove(0)
    })
    .await;
}

/// A client of a revision that has no such question is not asked it, whatever it says of itself.
#[tokio::test]
async fn bridging_a_revision_without_a_question_is_not_asked_it() {
    use plexus_testkit::ClientRevision;
    let scene = Scene::start().await;
    for way in Way::ALL.into_iter().filter(|way| way.client == Era::Session) {
        for (version, tool, method) in [
            ("2025-03-26", "test_elicitation", "elicitation/create"),
            ("2025-06-18", "ask_url", "elicitation/create"),
            ("2025-06-18", "ask_with_tools", "sampling/createMessage"),
        ] {
            let speaks = ClientRevision::Session(version);
            let client = scene.client_that_speaks(way, speaks, everything()).await.answer_with(obliging);
            let result = client.tool(&way.tool(tool), json!({ "message": "Who?" })).await;
            assert!(!client.methods().contains(&method.to_owned()), "{way:?} {version} {tool}");
            let failed = result.as_ref().map_or(true, |result| result["isError"] == true);
            assert!(failed, "{way:?} {version} {tool}: {result:?}");
        }
    }
}
