//! The TypeScript SDK as a client.

use plexus_testkit::{FaultyLink, Pinned, TestHub, sdk_script};
use serde_json::json;

use crate::sdk_scripts::{assert_refused, check, run, run_proxied};
use crate::tools::{controlled_tool, idle};

const V1: (&str, &str) = ("sdk-1", "node/client_v1.mjs");
const V2: (&str, &str) = ("sdk-2", "node/client_v2.mjs");

#[tokio::test]
async fn typescript_1_in_the_session_era() {
    run(Pinned::npm(V1.0).await, V1.1, "legacy", "2025-11-25").await;
}

#[tokio::test]
async fn typescript_2_pinned_to_the_stateless_revision() {
    run(Pinned::npm(V2.0).await, V2.1, "2026-07-28", "2026-07-28").await;
}

#[tokio::test]
async fn typescript_2_detects_the_stateless_revision() {
    run(Pinned::npm(V2.0).await, V2.1, "auto", "2026-07-28").await;
}

#[tokio::test]
async fn typescript_2_in_the_session_era() {
    run(Pinned::npm(V2.0).await, V2.1, "legacy", "2025-11-25").await;
}

#[tokio::test]
async fn typescript_2_in_the_older_revisions() {
    for revision in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        run(Pinned::npm(V2.0).await, V2.1, revision, revision).await;
    }
}

#[tokio::test]
async fn typescript_reports_an_invalid_token() {
    for ((set, script), mode) in [(V1, "legacy"), (V2, "legacy"), (V2, "2026-07-28")] {
        assert_refused(Pinned::npm(set).await, script, mode).await;
    }
}

#[tokio::test]
async fn typescript_through_a_proxy() {
    run_proxied(Pinned::npm(V1.0).await, V1.1, "legacy", "2025-11-25").await;
    for (mode, version) in [
        ("2026-07-28", "2026-07-28"),
        ("auto", "2026-07-28"),
        ("legacy", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
    ] {
        run_proxied(Pinned::npm(V2.0).await, V2.1, mode, version).await;
    }
}

/// The SDK itself resumes with the id of the last event.
async fn resumes_a_call((set, script): (&str, &str)) {
    let Some(sdk) = Pinned::npm(set).await else { return };
    let hub = TestHub::start().await;
    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool]);
    let token = hub.token("script", &["call:*"]).await.token;
    let link = FaultyLink::to(hub.address()).await;
    let mut script = sdk.script(&sdk_script(script), &[&link.url("/mcp"), "resume"], &token);
    assert_eq!(script.line().await, json!({ "calling": true }));
    control.started().await;
    control.progress(1.0).await;
    assert_eq!(script.line().await, json!({ "progress": 1 }));
    link.cut();
    control.finish("done after all").await;
    control.wait_until_over().await;
    let result = script.line().await;
    assert_eq!(result["text"], "done after all", "{result}");
    assert!(result["resumed"].as_u64().unwrap() > 0, "{result}");
    script.end().await;
    let calls = hub.api("/api/v1/audit?tool=work").await;
    assert_eq!(calls["items"].as_array().unwrap().len(), 1, "{calls}");
}

#[tokio::test]
async fn typescript_resumes_a_call_after_a_lost_connection() {
    tokio::join!(resumes_a_call(V1), resumes_a_call(V2));
}

/// The SDK resumes the session stream after the last event.
async fn resumes_the_session_stream((set, script): (&str, &str)) {
    let Some(sdk) = Pinned::npm(set).await else { return };
    let hub = TestHub::start().await;
    let token = hub.token("script", &["call:*"]).await.token;
    let link = FaultyLink::to(hub.address()).await;
    let mut script = sdk.script(&sdk_script(script), &[&link.url("/mcp"), "legacy"], &token);
    check(&script.line().await, "2025-11-25");
    assert_eq!(script.line().await, json!({ "listening": true }));
    link.cut();
    hub.registry().add([idle("added_later")]);
    let line = script.line().await;
    assert!(line["tools"].as_array().unwrap().contains(&json!("added_later")), "{line}");
    script.end().await;
}

#[tokio::test]
async fn typescript_resumes_the_session_stream_after_a_lost_connection() {
    tokio::join!(resumes_the_session_stream(V1), resumes_the_session_stream(V2));
}
