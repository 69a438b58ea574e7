//! Links of nodes, tested with a scripted node end over real WebSockets and real requests.

mod calls;
mod context;
mod hostile;
mod links;
mod narrowing;
mod real;
mod scripted_node;

use std::time::Duration;

use plexus_kit::Config;
use plexus_testkit::{TestHub, eventually};
use serde_json::Value;

use scripted_node::EnrolledNode;

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// A hub with short time-outs for lost nodes.
async fn quick_hub() -> TestHub {
    TestHub::start_with(|config: &mut Config| {
        config.nodes.heartbeat = Duration::from_millis(200);
        config.nodes.missed = 5;
    })
    .await
}

/// The hub's view of a node, once the condition holds.
async fn until(hub: &TestHub, node: &EnrolledNode, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("the node is {what}"), async || {
        let shown = hub.api(&format!("/api/v1/nodes/{}", node.id)).await;
        if condition(&shown) { Ok(shown) } else { Err(shown) }
    })
    .await
}

async fn until_state(hub: &TestHub, node: &EnrolledNode, state: &str) -> Value {
    until(hub, node, state, |node| node["state"] == state).await
}
