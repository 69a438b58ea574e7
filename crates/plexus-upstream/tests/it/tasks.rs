//! Calls that continue as tasks: created, polled, answered, cancelled, and lost.

use std::time::Duration;

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture, TASK_AFTER};
use plexus_testkit::{Answer, McpClient, TestHub};
use serde_json::{Value, json};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const PATIENCE: Duration = Duration::from_secs(10);

async fn hub(upstream: Eras) -> (TestHub, HttpFixture) {
    let fixture = Fixture::new().only(upstream).start().await;
    let hub = TestHub::start_answering(|options| options.task_after = TASK_AFTER).await;
    hub.add_upstream("fix", &json!({ "url": fixture.url() })).await;
    (hub, fixture)
}

async fn agent(hub: &TestHub, name: &str) -> McpClient {
    hub.mcp(&hub.token(name, &["call:*"]).await.token)
}

/// A request of a client that supports tasks and questions.
async fn ask(client: &McpClient, method: &str, mut params: Value) -> Answer {
    params["_meta"] = json!({ CAPABILITIES: { "extensions": { EXTENSION: {} }, "elicitation": {} } });
    client.modern(method, params).await
}

async fn call(client: &McpClient, tool: &str, arguments: Value) -> Value {
    let name = format!("mcp__fix__{tool}");
    ask(client, "tools/call", json!({ "name": name, "arguments": arguments })).await.result()
}

/// A call that becomes a task; its id.
async fn task(client: &McpClient, tool: &str, arguments: Value) -> String {
    let result = call(client, tool, arguments).await;
    assert_eq!(result["resultType"], "task", "{result}");
    result["taskId"].as_str().unwrap().to_owned()
}

async fn get(client: &McpClient, id: &str) -> Value {
    ask(client, "tasks/get", json!({ "taskId": id })).await.result()
}

/// The task once it has left a state.
async fn leaves(client: &McpClient, id: &str, state: &str) -> Value {
    let look = async {
        loop {
            let task = get(client, id).await;
            if task["status"] != state {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("it goes on")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_call_becomes_a_task_only_on_request() {
    let (hub, _fixture) = hub(Eras::Stateless).await;
    let client = agent(&hub, "modern").await;
    let long = json!({ "seconds": 1.2, "label": "job" });
    let plain = json!({ "name": "mcp__fix__slow_compute", "arguments": long });
    let undeclared = client.modern("tools/call", plain).await.result();
    assert_eq!((&undeclared["resultType"], &undeclared["isError"]), (&json!("complete"), &json!(false)));
    let immediate = call(&client, "greet", json!({})).await;
    assert_eq!(immediate["content"][0]["text"], "Hello, World!", "{immediate}");
    assert_eq!(
        (&immediate["resultType"], immediate.get("taskId")),
        (&json!("complete"), None),
        "{immediate}"
    );

    let created = call(&client, "slow_compute", long).await;
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(86_400_000), &json!(1_000)));
    for absent in ["task", "result", "error", "inputRequests", "requestState", "ttl"] {
        assert!(created.get(absent).is_none(), "{absent}: {created}");
    }
    let id = created["taskId"].as_str().unwrap();
    let working = get(&client, id).await;
    for member in ["taskId", "status", "createdAt", "ttlMs"] {
        assert_eq!(working[member], created[member], "{member}");
    }
    assert_eq!(working["resultType"], "complete", "that of the answer, not of the call: {working}");
    let done = leaves(&client, id, "working").await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["content"][0]["text"], "job: computed for 1.2 s");
    assert!(done.get("error").is_none() && done.get("inputRequests").is_none(), "{done}");
    let call_id = &done["result"]["_meta"]["plexus/call-id"];
    assert_eq!(&created["_meta"]["plexus/call-id"], call_id);
    let page = hub.api("/api/v1/audit?limit=1&tool=mcp__fix__slow_compute").await;
    assert_eq!((&page["items"][0]["call_id"], &page["items"][0]["outcome"]), (call_id, &json!("ok")));
    let all = hub.api("/api/v1/audit?tool=mcp__fix__slow_compute").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2, "each ran once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_is_visible_only_to_its_owner() {
    let (hub, _fixture) = hub(Eras::Stateless).await;
    let (owner, other) = (agent(&hub, "mine").await, agent(&hub, "others").await);
    let id = task(&owner, "slow_compute", json!({ "seconds": 60 })).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let about = |id: &str| json!({ "taskId": id, "inputResponses": {} });
        let foreign = ask(&other, method, about(&id)).await;
        assert_eq!(foreign.error(), (200, -32602), "{method}");
        let unknown = ask(&other, method, about("6b4b0dbb-9bf2-4b4b-a7b7-26b3bc2b0bb1")).await;
        let text = |answer: &Answer| answer.json()["error"]["message"].clone();
        assert_eq!((unknown.error(), text(&unknown)), (foreign.error(), text(&foreign)), "{method}");
        let undeclared = owner.modern(method, about(&id)).await;
        assert_eq!(undeclared.error(), (400, -32021), "{method}");
        let required = json!({ "extensions": { EXTENSION: {} } });
        assert_eq!(undeclared.json()["error"]["data"]["requiredCapabilities"], required, "{method}");
        assert_eq!(ask(&owner, method, json!({})).await.error(), (400, -32020), "no name: {method}");
    }
    assert_eq!(get(&owner, &id).await["status"], "working", "nobody else stopped it");
    for removed_method in ["tasks/list", "tasks/result"] {
        assert_eq!(
            ask(&owner, removed_method, json!({ "taskId": id })).await.error(),
            (404, -32601),
            "{removed_method}"
        );
    }
    let (session, _) = owner.initialize("2025-11-25").await;
    assert_eq!(session.call("tasks/get", json!({ "taskId": id })).await.error(), (200, -32601));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_task_is_reported_and_audited() {
    let (hub, _fixture) = hub(Eras::Sessions).await;
    let client = agent(&hub, "modern").await;
    let id = task(&client, "slow_compute", json!({ "seconds": 60 })).await;
    for _ in 0..2 {
        let acknowledged = ask(&client, "tasks/cancel", json!({ "taskId": id })).await.result();
        assert_eq!(acknowledged["resultType"], "complete");
        assert!(acknowledged.get("taskId").is_none() && acknowledged.get("status").is_none());
        let ended = leaves(&client, &id, "working").await;
        assert_eq!(ended["status"], "cancelled", "{ended}");
        assert!(ended.get("result").is_none() && ended.get("error").is_none(), "{ended}");
    }
    assert_eq!(hub.outcome_of("mcp__fix__slow_compute").await, "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_asks_in_both_eras() {
    for eras in [Eras::Stateless, Eras::Sessions] {
        let (hub, _fixture) = hub(eras).await;
        let client = agent(&hub, "modern").await;
        let id = task(&client, "confirm_delete", json!({ "filename": "a.txt" })).await;
        let asking = leaves(&client, &id, "working").await;
        assert_eq!(asking["status"], "input_required", "{eras:?}: {asking}");
        let questions = asking["inputRequests"].as_object().unwrap();
        let (key, question) = questions.iter().next().unwrap();
        assert_eq!(question["method"], "elicitation/create", "{eras:?}: {asking}");
        assert_eq!(question["params"]["message"], "Delete a.txt?", "{eras:?}: {asking}");
        let answer = |key: &str| {
            let content = json!({ "action": "accept", "content": { "confirm": "yes" } });
            json!({ "taskId": id, "inputResponses": { key: content } })
        };
        ask(&client, "tasks/update", answer("another")).await.result();
        assert_eq!(get(&client, &id).await["status"], "input_required", "{eras:?}: nothing was answered");
        let wrong = json!({ "taskId": id, "inputResponses": 7 });
        assert_eq!(ask(&client, "tasks/update", wrong).await.error(), (200, -32602), "{eras:?}");
        let update_result = ask(&client, "tasks/update", answer(key)).await.result();
        assert_eq!(
            (&update_result["resultType"], update_result.get("status")),
            (&json!("complete"), None),
            "{eras:?}"
        );
        let done = leaves(&client, &id, "working").await;
        assert_eq!(done["status"], "completed", "{eras:?}: {done}");
        let text = done["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("yes"), "{eras:?}: {text}");
        // A late answer changes nothing.
        ask(&client, "tasks/update", answer(key)).await.result();
        assert_eq!(get(&client, &id).await, done, "{eras:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_error_completes_and_protocol_error_fails_a_task() {
    let (hub, _fixture) = hub(Eras::Stateless).await;
    let client = agent(&hub, "modern").await;
    let ended = async |tool: &str| leaves(&client, &task(&client, tool, json!({})).await, "working").await;
    let (failing, broken) = tokio::join!(ended("failing_job"), ended("protocol_error_job"));
    assert_eq!((&failing["status"], &failing["result"]["isError"]), (&json!("completed"), &json!(true)));
    assert_eq!((&broken["status"], &broken["error"]["code"]), (&json!("failed"), &json!(-32603)), "{broken}");
    assert!(broken["error"]["message"].as_str().unwrap().contains("cannot be done"), "{broken}");
    assert!(broken.get("result").is_none() && failing.get("error").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_interrupted_by_a_stop_has_an_unknown_outcome() {
    let (hub, _fixture) = hub(Eras::Sessions).await;
    let client = agent(&hub, "modern").await;
    let ended = task(&client, "slow_compute", json!({ "seconds": 1, "label": "before" })).await;
    assert_eq!(leaves(&client, &ended, "working").await["status"], "completed");
    let running = task(&client, "slow_compute", json!({ "seconds": 60 })).await;
    let asking = task(&client, "confirm_delete", json!({ "filename": "a.txt" })).await;
    leaves(&client, &asking, "working").await;
    let stopping = std::time::Instant::now();
    let hub = hub.restart().await;
    assert!(stopping.elapsed() < Duration::from_secs(5), "a task does not hold up a stop");
    let client = client.at(hub.url("/mcp"));
    for id in [&running, &asking] {
        let task = get(&client, id).await;
        assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)), "{task}");
        let why = task["error"]["message"].as_str().unwrap();
        assert!(why.contains("unknown whether the task has done its work"), "{why}");
    }
    let stored = get(&client, &ended).await;
    assert_eq!(stored["result"]["content"][0]["text"], "before: computed for 1 s");

    let hub = hub.restart_later(Duration::from_secs(24 * 3600)).await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let expired = ask(&client, "tasks/get", json!({ "taskId": ended })).await;
    assert_eq!(expired.error(), (200, -32602), "{expired:?}");
}

/// Questions come first: a call becomes a task only after they are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn immediate_question_precedes_the_task() {
    for eras in [Eras::Stateless, Eras::Sessions] {
        let (hub, _fixture) = hub(eras).await;
        let client = agent(&hub, "modern").await;
        let question = call(&client, "test_tool_with_task", json!({})).await;
        assert_eq!(question["resultType"], "input_required", "{eras:?}: {question}");
        let key = question["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
        let retry = json!({
            "name": "mcp__fix__test_tool_with_task",
            "arguments": {},
            "inputResponses": { key: answer },
            "requestState": question["requestState"],
        });
        let created = ask(&client, "tools/call", retry).await.result();
        assert_eq!(created["resultType"], "task", "{eras:?}: {created}");
        assert_eq!(created["_meta"]["plexus/call-id"], question["_meta"]["plexus/call-id"], "{eras:?}");
        let done = leaves(&client, created["taskId"].as_str().unwrap(), "working").await;
        let text = done["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("Ann"), "{eras:?}: {done}");
        let all = hub.api("/api/v1/audit?tool=mcp__fix__test_tool_with_task").await;
        assert_eq!(all["items"].as_array().unwrap().len(), 1, "{eras:?}: it is one call");
    }
}
