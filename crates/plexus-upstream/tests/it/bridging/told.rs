//! What servers tell without being asked: progress, log lines, and what has changed.

use std::time::Duration;

use plexus_testkit::{InteractiveClient, NotificationStream};
use serde_json::{Value, json};

use super::matrix::Found;
use super::{Era, Scene, Way, ended, in_every_way};

const WATCHED: &str = "test://watched-resource";

#[tokio::test]
async fn bridging_progress_is_told() {
    in_every_way("progress", async |scene, way| {
        let client = scene.client(way, json!({})).await.with_progress();
        client.tool_text(&way.tool("test_tool_with_progress"), json!({})).await;
        let told: Vec<Value> =
            client.received().iter().map(|told| told["params"]["progress"].clone()).collect();
        assert_eq!(json!(told), json!([0, 50, 100]), "{way:?}");
        assert!(client.methods().iter().all(|method| method == "notifications/progress"), "{way:?}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_cancelled_call_is_cancelled_at_its_server() {
    in_every_way("cancelling a call", async |scene, way| {
        let client = scene.client(way, json!({})).await.with_progress();
        let cancelled = async || {
            let call = client.tool(&way.tool("describe_call"), json!({})).await.expect("a description");
            call["structuredContent"]["cancelledCalls"].as_u64().expect("a number")
        };
        let before = cancelled().await;
        client.start_and_cancel(&way.tool("slow"), json!({})).await;
        let patience = Duration::from_secs(20);
        let noticed = async {
            while cancelled().await == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(patience, noticed).await.unwrap_or_else(|_| panic!("{way:?}: it still runs"));
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_log_lines_are_read_by_those_who_want_to() {
    in_every_way("log lines of a call", async |scene, way| {
        let lines = |client: &InteractiveClient| -> Vec<Value> {
            let messages =
                client.received().into_iter().filter(|told| told["method"] == "notifications/message");
            messages.map(|told| told["params"]["data"].clone()).collect()
        };
        let reader = scene.client(way, json!({})).await.with_log_level("info").await;
        reader.tool_text(&way.tool("test_tool_with_logging"), json!({})).await;
        let expected = ["Tool execution started", "Tool processing data", "Tool execution completed"];
        assert_eq!(json!(lines(&reader)), json!(expected), "{way:?}");
        let grave = scene.client(way, json!({})).await.with_log_level("error").await;
        grave.tool_text(&way.tool("test_tool_with_logging"), json!({})).await;
        assert_eq!(lines(&grave), Vec::<Value>::new(), "{way:?}: nothing was as grave");
        if way.client == Era::Stateless {
            let silent = scene.client(way, json!({})).await.with_progress();
            silent.tool_text(&way.tool("test_tool_with_logging"), json!({})).await;
            assert_eq!(lines(&silent), Vec::<Value>::new(), "{way:?}: nobody wants to read");
        }
        Found::Passed
    })
    .await;
}

/// Waits for news of a list while something changes it.
async fn changes(scene: &Scene, way: Way, list: &str, tool: &str) -> Found {
    let client = scene.client(way, json!({})).await;
    if list != "tools" {
        scene.listed(&client, &format!("{list}/list"), list).await;
    }
    let before = client.request(&format!("{list}/list"), json!({})).await.expect("a list");
    let mut news = client.listen(&[list], &[]).await;
    client.tool_text(&way.tool(tool), json!({})).await;
    news.next_of(&format!("notifications/{list}/list_changed")).await;
    let after = client.request(&format!("{list}/list"), json!({})).await.expect("a list");
    assert_ne!(before[list], after[list], "{way:?}: it was told when it had changed");
    Found::Passed
}

#[tokio::test]
async fn bridging_a_change_of_the_tools_is_told() {
    in_every_way("changes of the list of tools", async |scene, way| {
        changes(scene, way, "tools", "test_trigger_tool_change").await
    })
    .await;
}

#[tokio::test]
async fn bridging_a_change_of_the_prompts_is_told() {
    in_every_way("changes of the list of prompts", async |scene, way| {
        changes(scene, way, "prompts", "test_trigger_prompt_change").await
    })
    .await;
}

#[tokio::test]
async fn bridging_a_change_of_the_resources_is_told() {
    in_every_way("changes of the list of resources", async |scene, way| {
        changes(scene, way, "resources", "change_resources").await
    })
    .await;
}

/// Touches a resource until it is told: a subscription takes a moment to reach the server.
async fn touched(client: &InteractiveClient, way: Way, uri: &str, news: &mut NotificationStream) -> Value {
    let touch = way.tool("touch_resource");
    for _ in 0..100 {
        client.tool_text(&touch, json!({ "uri": uri })).await;
        let told = news.next_of("notifications/resources/updated");
        if let Ok(told) = tokio::time::timeout(Duration::from_millis(200), told).await {
            return told;
        }
    }
    panic!("{way:?}: nobody hears of {uri}");
}

#[tokio::test]
async fn bridging_a_change_of_a_resource_is_told_to_those_who_watch_it() {
    in_every_way("changes of a resource", async |scene, way| {
        let client = scene.client(way, json!({})).await;
        scene.listed(&client, "resources/list", "resources").await;
        let mut news = client.listen(&[], &[WATCHED]).await;
        let told = touched(&client, way, WATCHED, &mut news).await;
        assert_eq!(told["uri"], WATCHED, "{way:?}");
        client.tool_text(&way.tool("touch_resource"), json!({ "uri": "test://static-text" })).await;
        let more = news.until_quiet().await;
        let others = more.iter().filter(|told| told["params"]["uri"] != WATCHED).count();
        assert_eq!(others, 0, "{way:?}: nobody watches that one: {more:?}");

        // By the name that always works, which is the one that is told.
        let qualified = format!("plexus+mcp://{}/{WATCHED}", way.server());
        let mut news = scene.client(way, json!({})).await.listen(&[], &[&qualified]).await;
        assert_eq!(touched(&client, way, WATCHED, &mut news).await["uri"], qualified.as_str(), "{way:?}");
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_the_methods_that_subscribe_are_of_sessions() {
    in_every_way("`resources/subscribe` and `resources/unsubscribe`", async |scene, way| {
        let client = scene.client(way, json!({})).await;
        scene.listed(&client, "resources/list", "resources").await;
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let answered = client.request(method, json!({ "uri": WATCHED })).await;
            let found = ended(answered, |result| assert_eq!(result, json!({}), "{way:?}"));
            if found != Found::Passed {
                return found;
            }
        }
        Found::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_a_ping_is_answered_by_the_hub() {
    in_every_way("ping", async |scene, way| {
        let client = scene.client(way, json!({})).await;
        ended(client.request("ping", json!({})).await, |result| assert_eq!(result, json!({})))
    })
    .await;
}
