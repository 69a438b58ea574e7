//! Tools of MCP servers that run on machines.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use plexus_proto::{ErrorCode, tool_name};
use plexus_tools::nodes::NodeEntry;
use plexus_tools::{Access, Host, Outcome, Placement, Tool, ToolContext, ToolOutput, ToolSpec, UpstreamTool};
use serde_json::{Map, Value, json};

use super::{TestNodes, node};
use crate::hub::{Hub, bounded};

/// The tool `read` of the server `files`, on this machine or behind the hub, which returns the name under which it was
/// called.
fn files(host: Option<&NodeEntry>) -> Tool {
    let mut definition = Map::new();
    definition.insert("name".to_owned(), json!("mcp__files_there__read"));
    let upstream = UpstreamTool {
        node: host.map(|host| Host { id: host.id, name: host.name.clone() }),
        definition,
        ..UpstreamTool::new("files", "read")
    };
    let spec = ToolSpec {
        name: tool_name::canonical("files", "read").into(),
        input_schema: json!({ "type": "object" }),
        placement: Placement::Upstream(Arc::new(upstream)),
        ..ToolSpec::hub("", "Read", "Reads a file.", Access::ADD)
    };
    let run = |context: ToolContext, arguments: Value| -> BoxFuture<'static, _> {
        Box::pin(async move {
            let name = match &context.node {
                Some(node) => format!("{} on {}", context.to_node(&arguments)?.tool, node.name),
                None => "in the hub".to_owned(),
            };
            Ok(Outcome::Ready(ToolOutput::new(name, &())))
        })
    };
    Tool::upstream(spec, Arc::new(run))
}

#[tokio::test]
async fn a_server_on_a_machine_is_called_there_by_those_only_who_may_use_the_machine() {
    bounded(async {
        let hub = Hub::start().await;
        let nas = node("nas", &[]);
        let machines = TestNodes::of([node("local", &[]), nas.clone()]);
        hub.dispatcher.set_nodes(machines.clone());
        assert!(hub.dispatcher.registry().set_hosted(vec![files(Some(&nas))]).is_empty());
        let inside = hub.agent("inside", &["call:mcp__files__*", "node:nas"]).await;
        let arguments = json!({ "node": "local", "path": "/" });
        let output = hub.ok(&inside, "mcp__files__read", arguments).await;
        assert_eq!(output.text(), "mcp__files_there__read on nas", "its arguments are its own");
        assert!(super::rows(&hub).await.is_empty());
        let outside = hub.agent("outside", &["call:*", "node:local"]).await;
        let error = hub.err(&outside, "mcp__files__read", json!({})).await;
        let none = hub.err(&outside, "mcp__filet__read", json!({})).await;
        assert_eq!(
            (error.code, error.text().replace("files", "filet")),
            (ErrorCode::UnknownTool, none.text())
        );
        machines.change("nas", |nas| nas.online = false);
        let error = hub.err(&inside, "mcp__files__read", json!({})).await;
        assert_eq!(error.message, "the node nas is offline since 2026-10-31T09:00:00Z");
        // A new name takes effect at once, also before the list follows.
        machines.change("nas", |nas| nas.name = "attic".to_owned());
        let error = hub.err(&inside, "mcp__files__read", json!({})).await;
        assert_eq!(error.code, ErrorCode::NotFound);
        hub.dispatcher.registry().set_hosted(vec![]);
        assert_eq!(hub.err(&inside, "mcp__files__read", json!({})).await.code, ErrorCode::UnknownTool);
    })
    .await;
}

#[tokio::test]
async fn hosted_server_cannot_take_the_name_of_a_hub_server() {
    bounded(async {
        let hub = Hub::start().await;
        let nas = node("nas", &[]);
        hub.dispatcher.set_nodes(TestNodes::of([nas.clone()]));
        let registry = hub.dispatcher.registry();
        registry.set_upstream("files", [files(None)]);
        assert_eq!(registry.set_hosted(vec![files(Some(&nas))]), ["mcp__files__read"]);
        assert_eq!(hub.ok(&hub.admin(), "mcp__files__read", json!({})).await.text(), "in the hub");
        // The hub's own server wins a name conflict, regardless of the order; only its own tools are removed.
        registry.set_upstream("files", []);
        registry.set_hosted(vec![files(Some(&nas))]);
        registry.set_upstream("files", []);
        let output = hub.ok(&hub.admin(), "mcp__files__read", json!({})).await;
        assert_eq!(output.text(), "mcp__files_there__read on nas");
        assert!(registry.listed_of("files").is_empty() && registry.listed_by_server().is_empty());
        registry.set_upstream("files", [files(None)]);
        assert_eq!(hub.ok(&hub.admin(), "mcp__files__read", json!({})).await.text(), "in the hub");
    })
    .await;
}
