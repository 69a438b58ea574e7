//! One connection to a server, and several callers: what is one's is never another's.

use plexus_testkit::fixture::{Eras, Fixture};
use plexus_testkit::{ClientRevision, InteractiveClient, McpClient, TestHub, stdio_fixture};
use serde_json::{Value, json};

use super::matrix::Found;
use super::{Era, Way, everything, in_every_way, obliging};

async fn client(hub: &TestHub, name: &str, speaks: ClientRevision) -> InteractiveClient {
    let token = hub.token(name, &["call:*"]).await.token;
    InteractiveClient::connect(hub, &token, speaks, everything()).await
}

/// Whether a tool that asks gets an answer while somebody else's call runs on the same connection.
async fn asks_among_others(hub: &TestHub, speaks: ClientRevision, server: &str) -> Result<String, String> {
    let other = client(hub, "other", speaks).await.with_progress();
    let asker = client(hub, "asker", speaks).await.answer_with(obliging);
    let asked = async {
        let tool = format!("mcp__{server}__test_elicitation");
        let result = asker.tool(&tool, json!({ "message": "Who?" })).await.expect("a result");
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if result["isError"] == true { Err(text) } else { Ok(text) }
    };
    let answer = other.during_call(&format!("mcp__{server}__slow"), json!({}), asked).await;
    let questions = other.methods().into_iter().filter(|method| method == "elicitation/create").count();
    assert_eq!(questions, 0, "another's question: {:?}", other.received());
    answer
}

#[tokio::test]
async fn bridging_ambiguous_question_is_refused() {
    in_every_way("a question over stdio while calls of several callers run", async |scene, way| {
        let hub = &scene.hub;
        let eras = if way.upstream == Era::Session { Eras::Sessions } else { Eras::Stateless };
        let name = format!("pipe{}", eras.name());
        hub.add_upstream(&name, &stdio_fixture(eras)).await;
        match asks_among_others(hub, way.speaks(), &name).await {
            Ok(text) => {
                assert!(text.contains("action=accept"), "{way:?}: {text}");
                Found::Passed
            }
            Err(text) => {
                let warnings = hub.upstreams().get(&name).expect("the server").warnings;
                let told = warnings.iter().any(|warning| warning.contains("per_session"));
                assert!(told, "{way:?}: what to do about it is said: {warnings:?}");
                let mut own = stdio_fixture(eras);
                own["per_session"] = json!(true);
                hub.add_upstream("own", &own).await;
                let alone = asks_among_others(hub, way.speaks(), "own").await;
                assert!(
                    alone.as_ref().is_ok_and(|text| text.contains("action=accept")),
                    "{way:?}: {alone:?}"
                );
                Found::Refused(if text.contains("-32603") { -32603 } else { 0 })
            }
        }
    })
    .await;
}

/// A question is put to the caller whose call asks, and nobody else hears of it.
#[tokio::test]
async fn bridging_question_reaches_only_its_caller() {
    let hub = TestHub::start().await;
    for (name, eras) in [("old", Eras::Sessions), ("new", Eras::Stateless)] {
        hub.add_upstream(name, &stdio_fixture(eras)).await;
        for way in Way::ALL.iter().filter(|way| way.server() == name) {
            let other = client(&hub, "other", way.speaks()).await;
            let mut ear = other.listen(&["tools", "prompts", "resources"], &[]).await;
            let asker = client(&hub, "asker", way.speaks()).await.answer_with(obliging);
            asker.tool_text(&way.tool("test_elicitation"), json!({ "message": "Who?" })).await;
            let overheard: Vec<Value> = ear
                .until_quiet()
                .await
                .into_iter()
                .filter(|heard| !heard["params"]["message"].is_null())
                .collect();
            assert_eq!(overheard, Vec::<Value>::new(), "{way:?}");
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
            let client = InteractiveClient::with(&direct, speaks, everything()).await.answer_with(obliging);
            client.tool("test_elicitation", json!({ "message": "Who?" })).await.expect("a result")
        });
        let met = attempt.join_next().await.expect("an attempt");
        assert!(met.is_err(), "{speaks:?} to {eras:?}");
    }
}
