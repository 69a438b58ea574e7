//! Clients of the SDKs that are asked something in the middle of a call, by a server of either era.

use plexus_testkit::fixture::{Eras, Fixture};
use plexus_testkit::{Pinned, TestHub, sdk_script};
use serde_json::{Value, json};

/// Asks two things, one after the other.
const TOOL: &str = "mcp__fix__test_input_required_result_multi_round";

async fn check_questions(sdk: Option<Pinned>, script: &str, mode: &str, version: &str) {
    let Some(sdk) = sdk else { return };
    for eras in [Eras::Stateless, Eras::Revision("2025-06-18")] {
        let fixture = Fixture::new().only(eras).start().await;
        let hub = TestHub::start().await;
        hub.add_upstream("fix", &json!({ "url": fixture.url() })).await;
        let token = hub.token("script", &["call:*"]).await.token;
        let mut script = sdk.script(&sdk_script(script), &[&hub.url("/mcp"), mode, TOOL], &token);
        let about = format!("{version} and a server of {eras:?}");
        for question in ["Step 1: What is your name?", "Step 2: What is your favorite color?"] {
            assert_eq!(script.line().await, json!({ "asked": question }), "{about}");
        }
        let report = script.line().await;
        assert_eq!(report["version"], version, "{about}: {report}");
        let answers: Value = serde_json::from_str(report["text"].as_str().unwrap()).unwrap();
        let texts: Vec<&str> = ["/content/name", "/content/color"]
            .iter()
            .filter_map(|field| {
                answers.as_object()?.values().find_map(|answer| answer.pointer(field)?.as_str())
            })
            .collect();
        assert_eq!(texts, ["Ann", "blue"], "{about}: {report}");
        script.end().await;
        let calls = hub.api(&format!("/api/v1/audit?tool={TOOL}")).await;
        assert_eq!(calls["items"].as_array().unwrap().len(), 1, "{about}: it is one call");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typescript_1_is_asked_by_servers_of_either_era() {
    check_questions(Pinned::npm("sdk-1").await, "node/asked_v1.mjs", "legacy", "2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typescript_2_is_asked_by_servers_of_either_era() {
    check_questions(Pinned::npm("sdk-2").await, "node/asked_v2.mjs", "2026-07-28", "2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_2_is_asked_by_servers_of_either_era() {
    for (mode, version) in [("2026-07-28", "2026-07-28"), ("legacy", "2025-11-25")] {
        let sdk = Pinned::python("mcp", "2.3.0").await;
        check_questions(sdk, "python/asked_v2.py", mode, version).await;
    }
}
