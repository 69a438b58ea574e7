//! Questions of servers behind the hub, in all combinations of eras.

use std::path::Path;
use std::time::Duration;

use plexus_testkit::fixture::{Eras, Fixture};
use plexus_testkit::interactive_client::{
    REVISION_2025_06, REVISION_2025_11, accepted_form, all_capabilities, consenting_client,
};
use plexus_testkit::{ClientRevision, InteractiveClient, QuestionReply, TestHub, stdio_fixture};
use serde_json::{Value, json};

const ERAS: [Eras; 2] = [Eras::Revision("2025-06-18"), Eras::Stateless];

#[tokio::test]
async fn questions_cross_all_combinations_of_eras() {
    let hub = TestHub::start().await;
    let token = hub.token("ann", &["call:*"]).await.token;
    let old = Fixture::new().only(Eras::Revision("2025-06-18")).start().await;
    let new = Fixture::new().only(Eras::Stateless).start().await;
    hub.add_upstream("old", &json!({ "url": old.url() })).await;
    hub.add_upstream("new", &json!({ "url": new.url() })).await;
    for server in ["old", "new"] {
        for speaks in [REVISION_2025_06, REVISION_2025_11, ClientRevision::Stateless] {
            let client = consenting_client(&hub, &token, speaks).await;
            let call =
                async |tool: &str| client.tool_text(&format!("mcp__{server}__{tool}"), json!({})).await;
            let text = call("test_input_required_result_elicitation").await;
            assert_eq!(text, "Hello, Ann!", "{server} {speaks:?}");
            let text = call("test_input_required_result_sampling").await;
            assert!(text.contains("Paris"), "{server} {speaks:?}: {text}");
            let text = call("test_input_required_result_list_roots").await;
            assert!(text.contains("file:///work"), "{server} {speaks:?}: {text}");
            let text = call("test_input_required_result_multi_round").await;
            assert!(text.contains("step2"), "{server} {speaks:?}: {text}");
            let text = call("test_input_required_result_multiple_inputs").await;
            assert!(text.contains("Ann") && text.contains("Paris"), "{server} {speaks:?}: {text}");
        }
    }
}

#[tokio::test]
async fn question_over_a_pipe_reaches_its_caller() {
    let hub = TestHub::start().await;
    let token = hub.token("ann", &["call:*"]).await.token;
    for (name, eras) in [("old", Eras::Sessions), ("new", Eras::Stateless)] {
        hub.add_upstream(name, &stdio_fixture(eras)).await;
        for speaks in [REVISION_2025_11, ClientRevision::Stateless] {
            let client = consenting_client(&hub, &token, speaks).await;
            let tool = format!("mcp__{name}__test_input_required_result_elicitation");
            assert_eq!(client.tool_text(&tool, json!({})).await, "Hello, Ann!", "{name} {speaks:?}");
        }
    }
}

#[tokio::test]
async fn answer_may_take_longer_than_the_server_timeout() {
    for eras in ERAS {
        let hub = TestHub::start().await;
        let token = hub.token("ann", &["call:*"]).await.token;
        let server = Fixture::new().only(eras).start().await;
        hub.add_upstream("fix", &json!({ "url": server.url(), "timeout": "1s" })).await;
        for speaks in [REVISION_2025_11, ClientRevision::Stateless] {
            let client = InteractiveClient::connect(&hub, &token, speaks, all_capabilities())
                .await
                .answer_with(|_, _| {
                    std::thread::sleep(Duration::from_millis(1_800));
                    QuestionReply::Result(accepted_form("Ann"))
                });
            let text = client.tool_text("mcp__fix__test_input_required_result_elicitation", json!({})).await;
            assert_eq!(text, "Hello, Ann!", "{eras:?} {speaks:?}");
        }
    }
}

/// The number of executions of a step in a server's ledger.
fn noted(ledger: &Path, step: &str, id: &str) -> usize {
    let line = format!("{step} {id}");
    std::fs::read_to_string(ledger).unwrap_or_default().lines().filter(|noted| **noted == line).count()
}

#[tokio::test]
async fn death_of_a_waiting_server_is_reported_without_a_rerun() {
    for eras in ERAS {
        let hub = TestHub::start().await;
        let client = hub.mcp(&hub.token("ann", &["call:*"]).await.token);
        let ledger = hub.data_dir().join("ledger");
        let fixture = Fixture::new().only(eras).with_ledger(Some(ledger.clone()));
        let server = fixture.start().await;
        let address = server.address();
        hub.add_upstream("fix", &json!({ "url": server.url() })).await;
        let mut params = json!({ "name": "mcp__fix__count_runs", "arguments": { "id": "one" } });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = all_capabilities();
        let parked = client.modern("tools/call", params.clone()).await.result();
        assert_eq!(parked["resultType"], "input_required", "{parked}");
        drop(server);
        let server = restarted(&fixture, address).await;
        let keys: Vec<&String> = parked["inputRequests"].as_object().unwrap().keys().collect();
        params["inputResponses"] = json!({ keys[0]: { "action": "accept", "content": { "ok": true } } });
        params["requestState"] = parked["requestState"].clone();
        let result = client.modern("tools/call", params).await.result();
        if eras == Eras::Stateless {
            // It keeps no state between two requests, so nothing was lost for it.
            assert_eq!(result["isError"], false, "{result}");
        } else {
            assert_eq!(result["isError"], true, "{result}");
            assert!(result.to_string().contains("Check first"), "{result}");
        }
        assert_eq!(result["_meta"]["plexus/call-id"], parked["_meta"]["plexus/call-id"]);
        assert_eq!(noted(&ledger, "begun", "one"), 1, "{eras:?}");
        let audited = hub.api("/api/v1/audit?tool=mcp__fix__count_runs").await;
        assert_eq!(audited["items"].as_array().map(Vec::len), Some(1), "{audited}");
        drop(server);
    }
}

/// The same server at the same address, as soon as the port is free.
async fn restarted(fixture: &Fixture, address: std::net::SocketAddr) -> plexus_testkit::fixture::HttpFixture {
    let start = async {
        loop {
            match fixture.listen(address).await {
                Ok(server) => return server,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), start).await.expect("the address is free in time")
}

#[tokio::test]
async fn incapable_client_gets_no_questions() {
    let hub = TestHub::start().await;
    let token = hub.token("ann", &["call:*"]).await.token;
    for (name, eras) in [("old", ERAS[0]), ("new", ERAS[1])] {
        let server = Fixture::new().only(eras).start().await;
        hub.add_upstream(name, &json!({ "url": server.url() })).await;
        let tool = format!("mcp__{name}__test_missing_capability");
        let client = InteractiveClient::connect(&hub, &token, REVISION_2025_11, json!({})).await;
        let result: Value = client.tool(&tool, json!({})).await.unwrap();
        assert_eq!(result["isError"], true, "{result}");
        assert!(client.received().is_empty());
        // The stateless revision has a code for this, regardless of the server's era.
        for can in [json!({}), json!({ "elicitation": {} })] {
            let client = InteractiveClient::connect(&hub, &token, ClientRevision::Stateless, can).await;
            let error = client.tool(&tool, json!({})).await.unwrap_err();
            assert_eq!((error.status, error.code), (400, -32021), "{name}: {error:?}");
            assert_eq!(error.data, json!({ "requiredCapabilities": { "sampling": {} } }), "{name}");
        }
    }
}
