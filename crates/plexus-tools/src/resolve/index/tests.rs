use plexus_proto::tool_name;
use serde_json::Value;

use super::super::{STEPS, without_client_prefix};
use super::*;
use crate::{Access, Outcome, Placement, ToolOutput, ToolSpec, UpstreamTool};

fn upstream(server: &str, tool: &str) -> Tool {
    let slug = tool_name::slug(server).unwrap();
    let mut spec = ToolSpec::hub("", "", "", Access::READ);
    spec.name = tool_name::canonical(&slug, tool).into();
    spec.input_schema = Value::Bool(true);
    spec.placement = Placement::Upstream(Arc::new(UpstreamTool::new(slug, tool)));
    let run = |_, _| -> futures_util::future::BoxFuture<'static, _> {
        Box::pin(std::future::ready(Ok(Outcome::Ready(ToolOutput::new("", &())))))
    };
    Tool::upstream(spec, Arc::new(run))
}

/// Each step finds the same tools among the candidates of the index as among all tools.
#[test]
fn index_candidates_contain_every_match() {
    let servers = ["a", "my-server", "my_server_x", "a server with a name that is far too long to be a slug"];
    let names = ["x", "x_y", "x-y", "X.y", "_x", "mcp__a__x", "a tool", &"long_".repeat(20)];
    let pairs = || servers.iter().flat_map(|server| names.iter().map(move |tool| (*server, *tool)));
    let tools: Vec<Tool> = pairs().map(|(server, tool)| upstream(server, tool)).collect();
    let tools: Tools = tools.into_iter().map(|tool| (tool.name().to_owned(), Arc::new(tool))).collect();
    let index = Index::new(&tools);
    let mut match_count = 0;
    for (server, tool) in pairs() {
        let slug = tool_name::slug(server).unwrap();
        for joint in ["_", "-", "__", ".", ":", "/"] {
            for name in [
                tool.to_owned(),
                format!("mcp{joint}{server}{joint}{tool}"),
                format!("mcp{joint}{slug}{joint}{tool}"),
                format!("{server}{joint}{tool}"),
                format!("mcp__{server}__{}", tool.replace('_', joint)),
                format!("mcp__plexus__{}", tool_name::canonical(&slug, tool)),
                format!("MCP{joint}{}{joint}{}", slug.to_uppercase(), tool.to_uppercase()),
            ] {
                for name in [Some(&*name), without_client_prefix(&name)].into_iter().flatten() {
                    for any_case in [false, true] {
                        let written = WrittenName::new(name, any_case);
                        let possible = index.possible(&tools, &written);
                        for step in STEPS {
                            let fits = |tool: &&Arc<Tool>| step(&written, tool);
                            let all: Vec<_> = tools.values().filter(fits).map(|tool| tool.name()).collect();
                            let indexed: Vec<_> =
                                possible.iter().copied().filter(fits).map(|tool| tool.name()).collect();
                            assert_eq!(indexed, all, "{name}");
                            match_count += all.len();
                        }
                    }
                }
            }
        }
    }
    assert!(match_count > 1_000, "{match_count}");
}
