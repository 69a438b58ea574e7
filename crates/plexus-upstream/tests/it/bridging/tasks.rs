//! Calls that take long, and arguments that are repeated in headers.

use std::time::Duration;

use plexus_testkit::fixture::{Eras, TASK_AFTER};
use plexus_testkit::{InteractiveClient, TestHub};
use serde_json::{Value, json};

use super::matrix::AttemptOutcome;
use super::{Direction, Era, Scene, in_every_direction, in_every_direction_from};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A hub that turns calls into tasks quickly, for clients that support tasks.
async fn busy() -> Scene {
    let hub = TestHub::start_answering(|options| options.task_after = TASK_AFTER).await;
    Scene::at(hub, Eras::Sessions).await
}

/// The result of a call, following its task if it became one, and whether it did.
async fn followed(client: &InteractiveClient, tool: &str, arguments: Value) -> (bool, Value) {
    let result = client.tool(tool, arguments).await.expect("a result");
    if result["resultType"] != "task" {
        return (false, result);
    }
    let id = &result["taskId"];
    let end = async {
        loop {
            let task = client.request("tasks/get", json!({ "taskId": id })).await.expect("the task");
            match task["status"].as_str() {
                Some("working") => tokio::time::sleep(Duration::from_millis(20)).await,
                Some("completed") => return task["result"].clone(),
                _ => panic!("{task}"),
            }
        }
    };
    (true, tokio::time::timeout(Duration::from_secs(20), end).await.expect("it ends"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bridging_a_long_call_is_a_task_to_those_who_know_tasks() {
    in_every_direction_from(busy, "the tasks extension", async |scene, direction| {
        let client = scene.client(direction, json!({ "extensions": { TASKS: {} } })).await;
        let long = json!({ "seconds": 1.2, "label": "job" });
        let (was_task, result) = followed(&client, &direction.tool("slow_compute"), long).await;
        assert_eq!(was_task, direction.client == Era::Stateless, "{direction:?}: {result}");
        assert!(result["content"][0]["text"].to_string().contains("job"), "{direction:?}: {result}");
        let (was_task, _) = followed(&client, &direction.tool("greet"), json!({})).await;
        assert!(!was_task, "{direction:?}: it takes no time");
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bridging_a_task_of_the_server_is_followed() {
    in_every_direction_from(busy, "a task of the server's own", async |scene, direction| {
        for capabilities in [json!({}), json!({ "extensions": { TASKS: {} } })] {
            let knows_tasks = capabilities != json!({}) && direction.client == Era::Stateless;
            let client = scene.client(direction, capabilities).await;
            let (was_task, result) =
                followed(&client, &direction.tool("own_task"), json!({ "ms": 1_200 })).await;
            assert_eq!(was_task, knows_tasks, "{direction:?}: {result}");
            assert_eq!(result["isError"], false, "{direction:?}: {result}");
        }
        AttemptOutcome::Passed
    })
    .await;
}

#[tokio::test]
async fn bridging_arguments_in_headers_are_compared() {
    in_every_direction(
        "`x-mcp-header`: arguments repeated in headers by the client",
        async |scene, direction| {
            let scope = format!("call:mcp__{}__*", direction.server());
            let client = scene.hub.mcp(&scene.hub.token("headers", &[&scope]).await.token);
            let params =
                json!({ "name": direction.tool("test_header_annotations"), "arguments": { "region": "eu" } });
            let (client, body) = client.modern_request(1, "tools/call", params);
            for wrong in [client.clone(), client.header("mcp-param-region", "us")] {
                assert_eq!(wrong.post_json(&body).await.error(), (400, -32020), "{direction:?}");
            }
            let answer = client.header("mcp-param-region", "eu").post_json(&body).await;
            assert_eq!(answer.result()["isError"], false, "{direction:?}: {answer:?}");
            AttemptOutcome::Passed
        },
    )
    .await;
}

/// The fixture refuses a call with wrong headers.
async fn repeats(scene: &Scene, direction: Direction) -> AttemptOutcome {
    let arguments = json!({ "region": "eu", "replicas": 3, "dry_run": true, "note": "none" });
    let scope = format!("call:mcp__{}__*", direction.server());
    let client = scene.hub.mcp(&scene.hub.token("headers", &[&scope]).await.token);
    let params = json!({ "name": direction.tool("test_header_annotations"), "arguments": arguments });
    let answer = match direction.client {
        Era::Session => client.initialize("2025-11-25").await.0.call("tools/call", params).await,
        Era::Stateless => {
            let (client, body) = client.modern_request(1, "tools/call", params);
            let client = client.header("mcp-param-region", "eu").header("mcp-param-replicas", "3");
            client.header("mcp-param-dry-run", "true").post_json(&body).await
        }
    };
    assert_eq!(answer.result()["isError"], false, "{direction:?}: {answer:?}");
    AttemptOutcome::Passed
}

#[tokio::test]
async fn bridging_arguments_are_repeated_in_headers() {
    in_every_direction(
        "`x-mcp-header`: arguments repeated in headers to the server",
        async |scene, direction| repeats(scene, direction).await,
    )
    .await;
}
