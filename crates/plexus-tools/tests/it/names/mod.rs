//! Which tool a name stands for, however it is written, and that no way of writing one reaches further.

mod aliases;
mod any_spelling;
mod records;

use std::sync::Arc;
use std::time::Duration;

use plexus_proto::tool_name;
use plexus_tools::{Access, Outcome, Placement, Tool, ToolOutput, ToolSpec, UpstreamTool};
use serde_json::{Map, json};

/// Whether a server's tools are listed by their own names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Naming {
    Full,
    Bare,
}

/// A tool of another server, which answers with its canonical name.
fn upstream(server: &str, naming: Naming, tool: &str) -> Tool {
    let slug = tool_name::slug(server).unwrap();
    let name = tool_name::canonical(&slug, tool);
    let text = name.clone();
    let spec = ToolSpec {
        name: name.into(),
        title: tool.to_owned().into(),
        description: "A tool of another server.".into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        access: Access::READ,
        actions: vec![],
        admin: false,
        time: None,
        starts_agents: false,
        handling: plexus_tools::Handling::default(),
        placement: Placement::Upstream(Arc::new(UpstreamTool {
            server: slug,
            tool: tool.to_owned(),
            groups: vec![],
            bare: naming == Naming::Bare,
            repeats_arguments: false,
            node: None,
            definition: Map::new(),
        })),
        deadline: Duration::from_secs(30),
    };
    let run = move |_, _| -> futures_util::future::BoxFuture<'static, _> {
        let output = ToolOutput::new(text.clone(), &json!({}));
        Box::pin(std::future::ready(Ok(Outcome::Ready(output))))
    };
    Tool::upstream(spec, Arc::new(run))
}
