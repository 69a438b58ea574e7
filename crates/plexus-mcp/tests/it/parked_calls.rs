//! Calls parked between two requests of 2026-07-28: a state is valid once, for its owner and its request, and resumes
//! the same call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_testkit::interactive_client::accepted_form;
use plexus_testkit::{McpClient, TestHub};
use serde_json::{Value, json};

use crate::asking_tool::{CallCounter, NAME, add_asking_tool, form, roots, stateless};

const LONG: Duration = Duration::from_secs(60);

struct Scene {
    hub: TestHub,
    client: McpClient,
    runs: Arc<CallCounter>,
}

async fn scene() -> Scene {
    scene_with(TestHub::start().await).await
}

async fn scene_with(hub: TestHub) -> Scene {
    let runs = add_asking_tool(&hub, LONG);
    let client = hub.mcp(&hub.token("ann", &["call:*"]).await.token);
    Scene { hub, client, runs }
}

fn arguments() -> Value {
    json!({ "rounds": [[form("a")]] })
}

/// Parks a call; returns its state and the whole result.
async fn park(client: &McpClient) -> (Value, Value) {
    let result = stateless(client, json!({ "arguments": arguments() })).await.result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    (result["requestState"].clone(), result)
}

fn retry(state: &Value) -> Value {
    let responses = json!({ "a": accepted_form("Ann") });
    json!({ "arguments": arguments(), "requestState": state, "inputResponses": responses })
}

/// The reason for which a state is refused.
async fn refused(client: &McpClient, params: Value) -> String {
    let answer = stateless(client, params).await;
    assert_eq!(answer.error(), (200, -32602), "{answer:?}");
    answer.json()["error"]["data"]["plexus"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn request_with_answers_gets_the_result_of_the_same_call() {
    let Scene { hub, client, runs } = scene().await;
    let (state, parked) = park(&client).await;
    assert_eq!(parked["inputRequests"]["a"]["method"], "elicitation/create");
    assert_eq!(parked["inputRequests"]["a"]["params"]["mode"], "form");
    assert!(parked.get("ttlMs").is_none() && parked.get("content").is_none(), "{parked}");
    let result = stateless(&client, retry(&state)).await.result();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(result["_meta"]["plexus/call-id"], parked["_meta"]["plexus/call-id"]);
    assert_eq!(runs.started_calls(), 1);
    let audited = hub.api(&format!("/api/v1/audit?tool={NAME}")).await;
    assert_eq!(audited["items"].as_array().unwrap().len(), 1, "{audited}");
    assert_eq!(audited["items"][0]["outcome"], "ok");
    assert_eq!(audited["items"][0]["call_id"], result["_meta"]["plexus/call-id"]);
}

#[tokio::test]
async fn state_is_valid_once() {
    let Scene { hub: _hub, client, runs } = scene().await;
    let (state, _) = park(&client).await;
    stateless(&client, retry(&state)).await.result();
    assert_eq!(refused(&client, retry(&state)).await, "used");
    // Also with two concurrent requests.
    let (state, _) = park(&client).await;
    let both = tokio::join!(stateless(&client, retry(&state)), stateless(&client, retry(&state)));
    let good = [&both.0, &both.1].iter().filter(|answer| answer.json().get("result").is_some()).count();
    assert_eq!(good, 1, "{both:?}");
    assert_eq!(runs.started_calls(), 2);
}

#[tokio::test]
async fn changed_or_foreign_state_is_refused() {
    let Scene { hub, client, runs } = scene().await;
    let bob = hub.mcp(&hub.token("bob", &["call:*"]).await.token);
    let (state, _) = park(&client).await;
    let text = state.as_str().unwrap();
    let damaged =
        json!(format!("{}{}", &text[..text.len() - 1], if text.ends_with('A') { "B" } else { "A" }));
    for params in [retry(&damaged), retry(&json!(format!("{text}-TAMPERED"))), retry(&json!(""))] {
        assert_eq!(refused(&client, params).await, "changed");
    }
    assert_eq!(refused(&bob, retry(&state)).await, "changed");
    let mut other = retry(&state);
    other["arguments"] = json!({ "rounds": [[form("b")]] });
    assert_eq!(refused(&client, other).await, "changed");
    let mut through = retry(&state);
    through["arguments"] = json!({ "name": NAME, "arguments": arguments() });
    through["name"] = json!("tool_call");
    through["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        plexus_testkit::interactive_client::all_capabilities();
    assert_eq!(client.modern("tools/call", through).await.error(), (200, -32602));
    for malformed in [json!(7), json!({}), json!(true)] {
        assert_eq!(refused(&client, retry(&malformed)).await, "");
    }
    // None of these used up the state.
    let result = stateless(&client, retry(&state)).await.result();
    assert_eq!(result["isError"], false);
    assert_eq!(runs.started_calls(), 1);
}

#[tokio::test]
async fn unanswered_questions_are_repeated_and_unknown_answers_ignored() {
    let Scene { hub: _hub, client, runs } = scene().await;
    let both = json!({ "rounds": [[form("a"), roots("r")]] });
    let parked = stateless(&client, json!({ "arguments": both })).await.result();
    assert_eq!(parked["inputRequests"].as_object().unwrap().len(), 2);
    let mut states = vec![parked["requestState"].clone()];
    let wrong = json!({ "a": { "action": "perhaps" }, "r": 7, "x": { "action": "accept" } });
    for (responses, remaining) in [
        (json!({}), vec!["a", "r"]),
        (wrong, vec!["a", "r"]),
        (json!({ "a": accepted_form("Ann") }), vec!["r"]),
    ] {
        let params = json!({ "arguments": both, "requestState": states.last(), "inputResponses": responses });
        let again = stateless(&client, params).await.result();
        assert_eq!(again["resultType"], "input_required");
        let keys: Vec<_> = again["inputRequests"].as_object().unwrap().keys().collect();
        assert_eq!(keys, remaining, "{again}");
        assert!(!states.contains(&again["requestState"]), "each response has a new state");
        states.push(again["requestState"].clone());
    }
    let last = json!({ "r": { "roots": [] } });
    let params = json!({ "arguments": both, "requestState": states.last(), "inputResponses": last });
    let result = stateless(&client, params).await.result();
    assert_eq!(result["resultType"], "complete");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("Ann"), "{result}");
    assert_eq!(runs.started_calls(), 1);
}

#[tokio::test]
async fn invalid_answers_are_refused_and_do_not_use_up_the_state() {
    let Scene { hub: _hub, client, .. } = scene().await;
    let (state, _) = park(&client).await;
    let mut params = retry(&state);
    params["inputResponses"] = json!([1]);
    assert_eq!(refused(&client, params).await, "");
    assert_eq!(stateless(&client, retry(&state)).await.result()["resultType"], "complete");
}

#[tokio::test]
async fn each_round_of_questions_has_a_new_state() {
    let Scene { hub: _hub, client, runs } = scene().await;
    let arguments = json!({ "rounds": [[form("a")], [form("a")]] });
    let first = stateless(&client, json!({ "arguments": arguments })).await.result();
    let responses = json!({ "a": accepted_form("Ann") });
    let mut params =
        json!({ "arguments": arguments, "requestState": first["requestState"], "inputResponses": responses });
    let second = stateless(&client, params.clone()).await.result();
    assert_eq!(second["resultType"], "input_required");
    assert_ne!(first["requestState"], second["requestState"]);
    assert_eq!(refused(&client, params.clone()).await, "used");
    params["requestState"] = second["requestState"].clone();
    assert_eq!(stateless(&client, params).await.result()["resultType"], "complete");
    assert_eq!(runs.started_calls(), 1);
}

#[tokio::test]
async fn call_that_is_not_resumed_is_cancelled() {
    let hub = TestHub::start_answering(|options| options.question_timeout = Duration::from_millis(300)).await;
    let Scene { hub, client, runs } = scene_with(hub).await;
    let (state, _) = park(&client).await;
    runs.wait_for_end_of(1).await;
    assert_eq!(refused(&client, retry(&state)).await, "expired");
    assert_eq!(runs.started_calls(), 1);
    assert_eq!(hub.outcome_of(NAME).await, "cancelled");
}

#[tokio::test]
async fn parked_calls_are_limited_per_caller() {
    let Scene { hub, client, runs } = scene().await;
    let mut states = Vec::new();
    for _ in 0..16 {
        states.push(park(&client).await.0);
    }
    let refused = stateless(&client, json!({ "arguments": arguments() })).await.result();
    assert_eq!((&refused["resultType"], &refused["isError"]), (&json!("complete"), &json!(true)));
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("answer one of the open questions first"), "{text}");
    // Other callers are not affected, and an answer frees a place.
    let bob = hub.mcp(&hub.token("bob", &["call:*"]).await.token);
    park(&bob).await;
    stateless(&client, retry(&states[0])).await.result();
    park(&client).await;
    assert_eq!(runs.started_calls(), 19);
}

#[tokio::test]
async fn resuming_a_hidden_tool_cancels_the_call() {
    let Scene { hub, client, runs } = scene().await;
    let (state, _) = park(&client).await;
    hub.registry().remove(&[NAME]);
    assert_eq!(stateless(&client, retry(&state)).await.error(), (200, -32602));
    runs.wait_for_end_of(1).await;
    assert_eq!(hub.outcome_of(NAME).await, "cancelled");
}

#[tokio::test]
async fn revoked_token_cannot_resume() {
    let Scene { hub, runs, .. } = scene().await;
    let token = hub.token("carl", &["call:*"]).await;
    let client = hub.mcp(&token.token);
    let (state, _) = park(&client).await;
    hub.revoke(&token.jti).await;
    assert_eq!(stateless(&client, retry(&state)).await.status, 401);
    assert_eq!(runs.started_calls(), 1);
}

#[tokio::test]
async fn stopping_hub_cancels_parked_calls_and_reports_them_lost() {
    let Scene { hub, client, runs } = scene().await;
    let (state, _) = park(&client).await;
    let began = Instant::now();
    let hub = hub.restart().await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    runs.wait_for_end_of(1).await;
    let runs = add_asking_tool(&hub, LONG);
    let client = client.at(hub.url("/mcp"));
    let answer = stateless(&client, retry(&state)).await;
    assert_eq!(answer.json()["error"]["data"]["plexus"], "lost", "{answer:?}");
    assert!(answer.body.contains("not run again"), "{answer:?}");
    assert_eq!(runs.started_calls(), 0);
    assert_eq!(hub.outcome_of(NAME).await, "cancelled");
}

#[tokio::test]
async fn closing_a_resumed_request_cancels_the_call() {
    let Scene { hub, client, runs } = scene().await;
    let arguments = json!({ "rounds": [[form("a")]], "work_ms": 60_000 });
    let parked = stateless(&client, json!({ "arguments": arguments })).await.result();
    let responses = json!({ "a": accepted_form("Ann") });
    let params = json!({ "arguments": arguments, "requestState": parked["requestState"], "inputResponses": responses });
    let working = tokio::time::timeout(Duration::from_millis(500), stateless(&client, params));
    assert!(working.await.is_err(), "the call works for a minute");
    runs.wait_for_end_of(1).await;
    assert_eq!(hub.outcome_of(NAME).await, "cancelled");
}

#[tokio::test]
async fn idempotency_key_waits_for_the_parked_call() {
    let Scene { hub: _hub, client, runs } = scene().await;
    let keyed = |mut params: Value| {
        params["_meta"] = json!({ "plexus/idempotency-key": "k1" });
        params
    };
    let parked = stateless(&client, keyed(json!({ "arguments": arguments() }))).await.result();
    // Another request with the key waits for the first call.
    let waiting = stateless(&client, keyed(json!({ "arguments": arguments() })));
    let answering = stateless(&client, keyed(retry(&parked["requestState"])));
    let (waited, answered) = tokio::join!(waiting, answering);
    assert_eq!(answered.result()["resultType"], "complete");
    assert_eq!(waited.result()["_meta"]["plexus/replayed"], true, "{waited:?}");
    let third = stateless(&client, keyed(json!({ "arguments": arguments() }))).await.result();
    assert_eq!(third["_meta"]["plexus/replayed"], true, "{third}");
    assert_eq!(third["content"], answered.result()["content"]);
    assert_eq!(runs.started_calls(), 1);
}

#[tokio::test]
async fn question_is_the_last_event_of_a_stream() {
    let Scene { hub: _hub, client, .. } = scene().await;
    let meta = json!({
        "progressToken": "p",
        "io.modelcontextprotocol/clientCapabilities": plexus_testkit::interactive_client::all_capabilities(),
    });
    let params = json!({ "name": NAME, "arguments": arguments(), "_meta": meta });
    let (streaming, body) = client.modern_request(1, "tools/call", params);
    let messages = streaming.post_stream(&body).await.to_end().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["result"]["resultType"], "input_required");
    let mut params = retry(&messages[0]["result"]["requestState"]);
    params["_meta"]["progressToken"] = json!("q");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        plexus_testkit::interactive_client::all_capabilities();
    params["name"] = NAME.into();
    let (streaming, body) = client.modern_request(2, "tools/call", params);
    let messages = streaming.post_stream(&body).await.to_end().await;
    assert_eq!(messages.last().unwrap()["result"]["resultType"], "complete", "{messages:?}");
}

#[tokio::test]
async fn capabilities_of_the_latest_request_apply() {
    let Scene { hub: _hub, client, .. } = scene().await;
    let arguments = json!({ "rounds": [[form("a")], [roots("r")]] });
    let parked = stateless(&client, json!({ "arguments": arguments })).await.result();
    let params = json!({
        "name": NAME,
        "arguments": arguments,
        "requestState": parked["requestState"],
        "inputResponses": { "a": accepted_form("Ann") },
        "_meta": { "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } },
    });
    let answer = client.modern("tools/call", params).await;
    assert_eq!(answer.error(), (400, -32021), "{answer:?}");
    assert_eq!(answer.json()["error"]["data"], json!({ "requiredCapabilities": { "roots": {} } }));
}
