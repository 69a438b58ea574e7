//! What servers tell without being asked: progress, log lines, and what has changed.

use std::time::Duration;

use plexus_testkit::{InteractiveClient, NotificationStream};
use serde_json::{Value, json};

use super::matrix::AttemptOutcome;
use super::{Direction, Era, Scene, ended, in_every_direction};

const WATCHED: &str = "test://watched-resource";

#[tokio::test]
async fn bridging_progress_is_told() {
    in_every_direction("progress", async |scene, direction| {
        let client = scene.client(direction, json!({})).await.with_progress();
        client.tool_text(&direction.tool("test_tool_with_progress"), json!({})).await;
        let message: Vec<Value> =
            client.received().iter().map(|message| message["params"]["progress"].clone()).collect();
        assert_eq!(json!(message), json!([0, 50, 100]), "{direction:?}");
        assert!(client.methods().iter().all(|method| method == "notifications/progress"), "{direction:?}");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_cancelled_call_is_cancelled_at_its_server() {
    in_every_direction("cancelling a call", async |scene, direction| {
        let client = scene.client(direction, json!({})).await.with_progress();
        let cancelled = async || {
            let call = client.tool(&direction.tool("describe_call"), json!({})).await.expect("a description");
            call["structuredContent"]["cancelledCalls"].as_u64().expect("a number")
        };
        let before = cancelled().await;
        client.start_and_cancel(&direction.tool("slow"), json!({})).await;
        let patience = Duration::from_secs(20);
        let noticed = async {
            while cancelled().await == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(patience, noticed)
            .await
            .unwrap_or_else(|_| panic!("{direction:?}: it still runs"));
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_log_lines_are_read_by_those_who_want_to() {
    in_every_direction("log lines of a call", async |scene, direction| {
        let lines = |client: &InteractiveClient| -> Vec<Value> {
            let messages =
                client.received().into_iter().filter(|message| message["method"] == "notifications/message");
            messages.map(|message| message["params"]["data"].clone()).collect()
        };
        let reader = scene.client(direction, json!({})).await.with_log_level("info").await;
        reader.tool_text(&direction.tool("test_tool_with_logging"), json!({})).await;
        let expected = ["Tool execution started", "Tool processing data", "Tool execution completed"];
        assert_eq!(json!(lines(&reader)), json!(expected), "{direction:?}");
        let grave = scene.client(direction, json!({})).await.with_log_level("error").await;
        grave.tool_text(&direction.tool("test_tool_with_logging"), json!({})).await;
        assert_eq!(lines(&grave), Vec::<Value>::new(), "{direction:?}: nothing was as grave");
        if direction.client == Era::Stateless {
            let silent = scene.client(direction, json!({})).await.with_progress();
            silent.tool_text(&direction.tool("test_tool_with_logging"), json!({})).await;
            assert_eq!(lines(&silent), Vec::<Value>::new(), "{direction:?}: nobody wants to read");
        }
        AttemptOutcome::Passed
    })
    .await;
}

/// Waits for news of a list while something changes it.
async fn changes(scene: &Scene, direction: Direction, list: &str, tool: &str) -> AttemptOutcome {
    let client = scene.client(direction, json!({})).await;
    if list != "tools" {
        scene.listed(&client, &format!("{list}/list"), list).await;
    }
    let before = client.request(&format!("{list}/list"), json!({})).await.expect("a list");
    let mut news = client.listen(&[list], &[]).await;
    client.tool_text(&direction.tool(tool), json!({})).await;
    news.next_of(&format!("notifications/{list}/list_changed")).await;
    let after = client.request(&format!("{list}/list"), json!({})).await.expect("a list");
    assert_ne!(before[list], after[list], "{direction:?}: it was told when it had changed");
    AttemptOutcome::Passed
}

#[tokio::test]
async fn bridging_a_change_of_the_tools_is_told() {
    in_every_direction("changes of the list of tools", async |scene, direction| {
        changes(scene, direction, "tools", "test_trigger_tool_change").await
    })
    .await;
}

#[tokio::test]
async fn bridging_a_change_of_the_prompts_is_told() {
    in_every_direction("changes of the list of prompts", async |scene, direction| {
        changes(scene, direction, "prompts", "test_trigger_prompt_change").await
    })
    .await;
}

#[tokio::test]
async fn bridging_a_change_of_the_resources_is_told() {
    in_every_direction("changes of the list of resources", async |scene, direction| {
        changes(scene, direction, "resources", "change_resources").await
    })
    .await;
}

/// Changes a resource until the change is reported: a subscription takes a moment to reach the server.
async fn touched(
    client: &InteractiveClient,
    direction: Direction,
    uri: &str,
    news: &mut NotificationStream,
) -> Value {
    let touch = direction.tool("touch_resource");
    for _ in 0..100 {
        client.tool_text(&touch, json!({ "uri": uri })).await;
        let message = news.next_of("notifications/resources/updated");
        if let Ok(message) = tokio::time::timeout(Duration::from_millis(200), message).await {
            return message;
        }
    }
    panic!("{direction:?}: nobody hears of {uri}");
}

#[tokio::test]
async fn bridging_a_change_of_a_resource_is_told_to_those_who_watch_it() {
    in_every_direction("changes of a resource", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        scene.listed(&client, "resources/list", "resources").await;
        let mut news = client.listen(&[], &[WATCHED]).await;
        let message = touched(&client, direction, WATCHED, &mut news).await;
        assert_eq!(message["uri"], WATCHED, "{direction:?}");
        client.tool_text(&direction.tool("touch_resource"), json!({ "uri": "test://static-text" })).await;
        let more = news.until_quiet().await;
        let other_count = more.iter().filter(|message| message["params"]["uri"] != WATCHED).count();
        assert_eq!(other_count, 0, "{direction:?}: nobody watches that one: {more:?}");

        // Under the qualified URI, which notifications contain.
        let qualified = format!("plexus+mcp://{}/{WATCHED}", direction.server());
        let mut news = scene.client(direction, json!({})).await.listen(&[], &[&qualified]).await;
        assert_eq!(
            touched(&client, direction, WATCHED, &mut news).await["uri"],
            qualified.as_str(),
            "{direction:?}"
        );
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_methods_that_subscribe_are_of_sessions() {
    in_every_direction("`resources/subscribe` and `resources/unsubscribe`", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        scene.listed(&client, "resources/list", "resources").await;
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let answered = client.request(method, json!({ "uri": WATCHED })).await;
            let outcome = ended(answered, |result| assert_eq!(result, json!({}), "{direction:?}"));
            if outcome != AttemptOutcome::Passed {
                return outcome;
            }
        }
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_ping_is_answered_by_the_hub() {
    in_every_direction("ping", async |scene, direction| {
        let client = scene.client(direction, json!({})).await;
        ended(client.request("ping", json!({})).await, |result| assert_eq!(result, json!({})))
    })
    .await;
}
