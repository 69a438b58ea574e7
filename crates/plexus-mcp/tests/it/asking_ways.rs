//! Questions of servers behind the hub, from either era to either era.

use plexus_testkit::fixture::{Eras, Fixture};
use plexus_testkit::{Speaks, TestHub};
use serde_json::json;

use crate::curious::{NEW, OLD, willing};

#[tokio::test]
async fn questions_of_servers_of_either_era_reach_clients_of_either_era() {
    let hub = TestHub::start().await;
    let token = hub.token("ann", &["call:*"]).await.token;
    let old = Fixture::new().only(Eras::Revision("2025-06-18")).start().await;
    let new = Fixture::new().only(Eras::Stateless).start().await;
    hub.add_upstream("old", &json!({ "url": old.url() })).await;
    hub.add_upstream("new", &json!({ "url": new.url() })).await;
    for server in ["old", "new"] {
        for speaks in [OLD, NEW, Speaks::Stateless] {
            let client = willing(&hub, &token, speaks).await;
            let call =
                async |tool: &str| client.tool_text(&format!("mcp__{server}__{tool}"), json!({})).await;
            let said = call("test_input_required_result_elicitation").await;
            assert_eq!(said, "Hello, Ann!", "{server} {speaks:?}");
            let said = call("test_input_required_result_sampling").await;
            assert!(said.contains("Paris"), "{server} {speaks:?}: {said}");
            let said = call("test_input_required_result_list_roots").await;
            assert!(said.contains("file:///work"), "{server} {speaks:?}: {said}");
            let said = call("test_input_required_result_multi_round").await;
            assert!(said.contains("step2"), "{server} {speaks:?}: {said}");
            let said = call("test_input_required_result_multiple_inputs").await;
            assert!(said.contains("Ann") && said.contains("Paris"), "{server} {speaks:?}: {said}");
        }
    }
}
