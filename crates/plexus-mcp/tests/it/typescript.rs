//! The TypeScript SDK as a client: 1.x, and 2.x in both eras.

use plexus_testkit::{Link, Pinned, TestHub, sdk_script};
use serde_json::json;

use crate::scripts::{assert_refused, check, run, run_proxied};
use crate::tools::{idle, puppet};

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
async fn typescript_2_finds_the_stateless_revision_by_itself() {
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
async fn typescript_is_told_that_its_token_is_no_good() {
    for ((set, script), mode) in [(V1, "legacy"), (V2, "legacy"), (V2, "2026-07-28")] {
        assert_refused(Pinned::npm(set).await, script, mode).await;
    }
}

#[tokio::test]
async fn typescript_by_a_proxy() {
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

/// The SDK comes back for the result with the id of the last event, by itself.
async fn resumes_a_call((set, script): (&str, &str)) {
    let Some(sdk) = Pinned::npm(set).await else { return };
    let hub = TestHub::start().await;
    let (tool, mut strings) = puppet("work");
    hub.registry().add([tool]);
    let token = hub.token("script", &["call:*"]).await.token;
    let way = Link::to(hub.address()).await;
    let mut script = sdk.script(&sdk_script(script), &[&way.url("/mcp"), "resume"], &token);
    assert_eq!(script.line().await, json!({ "calling": true }));
    strings.started().await;
    strings.progress(1.0).await;
    assert_eq!(script.line().await, json!({ "progress": 1 }));
    way.cut();
    strings.finish("done after all").await;
    strings.over().await;
    let result = script.line().await;
    assert_eq!(result["text"], "done after all", "{result}");
    assert!(result["resumed"].as_u64().unwrap() > 0, "{result}");
    script.end().await;
    let calls = hub.api("/api/v1/audit?tool=work").await;
    assert_eq!(calls["items"].as_array().unwrap().len(), 1, "{calls}");
}

#[tokio::test]
async fn typescript_resumes_a_call_whose_connection_was_lost() {
    tokio::join!(resumes_a_call(V1), resumes_a_call(V2));
}

/// The stream of the session is opened again from where it broke off.
async fn hears_what_it_missed((set, script): (&str, &str)) {
    let Some(sdk) = Pinned::npm(set).await else { return };
    let hub = TestHub::start().await;
    let token = hub.token("script", &["call:*"]).await.token;
    let way = Link::to(hub.address()).await;
    let mut script = sdk.script(&sdk_script(script), &[&way.url("/mcp"), "legacy"], &token);
    check(&script.line().await, "2025-11-25");
    assert_eq!(script.line().await, json!({ "listening": true }));
    way.cut();
    hub.registry().add([idle("added_later")]);
    let heard = script.line().await;
    assert!(heard["tools"].as_array().unwrap().contains(&json!("added_later")), "{heard}");
    script.end().await;
}

#[tokio::test]
async fn typescript_hears_what_it_missed_while_its_connection_was_lost() {
    tokio::join!(hears_what_it_missed(V1), hears_what_it_missed(V2));
}
