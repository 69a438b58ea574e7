//! Several callers share one connection to a server: questions reach only their own caller.

use plexus_testkit::fixture::{Eras, Fixture};
use plexus_testkit::{ClientRevision, InteractiveClient, McpClient, TestHub, stdio_fixture};
use serde_json::{Value, json};

use super::matrix::AttemptOutcome;
use super::{Direction, Era, all_capabilities, answer_everything, in_every_direction};

async fn client(hub: &TestHub, name: &str, speaks: ClientRevision) -> InteractiveClient {
    let token = hub.token(name, &["call:*"]).await.token;
    InteractiveClient::connect(hub, &token, speaks, all_capabilities()).await
}

/// Whether a tool that asks gets an answer while somebody else's call runs on the same connection.
async fn asks_among_others(hub: &TestHub, speaks: ClientRevision, server: &str) -> Result<String, String> {
    let other = client(hub, "other", speaks).await.with_progress();
    let asker = client(hub, "asker", speaks).await.answer_with(answer_everything);
    let question = async {
        let tool = format!("mcp__{server}__test_elicitation");
        let result = asker.tool(&tool, json!({ "message": "Who?" })).await.expect("a result");
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if result["isError"] == true { Err(text) } else { Ok(text) }
    };
    let answer = other.during_call(&format!("mcp__{server}__slow"), json!({}), question).await;
    let questions = other.methods().into_iter().filter(|method| method == "elicitation/create").count();
    assert_eq!(questions, 0, "another's question: {:?}", other.received());
    answer
}

#[tokio::test]
async fn bridging_ambiguous_question_is_refused() {
    in_every_direction(
        "a question over stdio while calls of several callers run",
        async |scene, direction| {
            let hub = &scene.hub;
            let eras = if direction.upstream == Era::Session { Eras::Sessions } else { Eras::Stateless };
            let name = format!("pipe{}", eras.name());
            hub.add_upstream(&name, &stdio_fixture(eras)).await;
            match asks_among_others(hub, direction.speaks(), &name).await {
                Ok(text) => {
                    assert!(text.contains("action=accept"), "{direction:?}: {text}");
                    AttemptOutcome::Passed
                }
                Err(text) => {
                    let warnings = hub.upstreams().get(&name).expect("the server").warnings;
                    let has_advice = warnings.iter().any(|warning| warning.contains("per_session"));
                    assert!(has_advice, "{direction:?}: what to do about it is said: {warnings:?}");
                    let mut own = stdio_fixture(eras);
                    own["per_session"] = json!(true);
                    hub.add_upstream("own", &own).await;
                    let result = asks_among_others(hub, direction.speaks(), "own").await;
                    assert!(
                        result.as_ref().is_ok_and(|text| text.contains("action=accept")),
                        "{direction:?}: {result:?}"
                    );
                    AttemptOutcome::Refused(if text.contains("-32603") { -32603 } else { 0 })
                }
            }
        },
    )
    .await;
}

/// A question reaches only the caller whose call asks it.
#[tokio::test]
async fn bridging_question_reaches_only_its_caller() {
    let hub = TestHub::start().await;
    for (name, eras) in [("old", Eras::Sessions), ("new", Eras::Stateless)] {
        hub.add_upstream(name, &stdio_fixture(eras)).await;
        for direction in Direction::ALL.iter().filter(|direction| direction.server() == name) {
            let other = client(&hub, "other", direction.speaks()).await;
            let mut ear = other.listen(&["tools", "prompts", "resources"], &[]).await;
            let asker = client(&hub, "asker", direction.speaks()).await.answer_with(answer_everything);
            asker.tool_text(&direction.tool("test_elicitation"), json!({ "message": "Who?" })).await;
            let overheard: Vec<Value> = ear
                .until_quiet()
                .await
                .into_iter()
                .filter(|message| !message["params"]["message"].is_null())
                .collect();
            assert_eq!(overheard, Vec::<Value>::new(), "{direction:?}");
        }
    }
}

/// What the matrix says is the hub's doing: without it the eras do not meet.
#[tokio::test]
async fn bridging_without_a_hub_between_them_the_eras_do_not_meet() {
    for (eras, speaks) in [
        (Eras::Sessions, ClientRevision::Stateless),
        (Eras::Stateless, ClientRevision::Session("2025-11-25")),
    ] {
        let server = Fixture::new().only(eras).start().await;
        let http = plexus_testkit::http_client();
        let direct = McpClient::new(http, server.url(), "none");
        let mut attempt = tokio::task::JoinSet::new();
        attempt.spawn(async move {
            let client = InteractiveClient::with(&direct, speaks, all_capabilities())
                .await
                .answer_with(answer_everything);
            client.tool("test_elicitation", json!({ "message": "Who?" })).await.expect("a result")
        });
        let met = attempt.join_next().await.expect("an attempt");
        assert!(met.is_err(), "{speaks:?} to {eras:?}");
    }
}
