//! Tools of servers that run on nodes: their definitions arrive over a link, and are checked like those of
//! any server.
//!
//! The node that runs the server decides which definitions are approved. Definitions with invisible text are
//! left out here regardless of that decision.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use plexus_mcp::param_headers::param_headers;
use plexus_proto::api::FlagKind;
use plexus_tools::{Access, Host, Placement, ToolSpec, UpstreamTool};
use serde_json::{Map, Value};

use crate::supervision::catalog::{self, definition};
use crate::trust::{self, MAX_DEFINITION, MAX_NAME};

/// Deadline of a call; the node applies the timeout in its own file of the server.
const DEADLINE: Duration = Duration::from_secs(600);

/// The hub's definition of a tool of a node's server, under this canonical name; or why it is left out.
pub fn hosted(
    host: &Host,
    slug: &str,
    name: String,
    declared: &Map<String, Value>,
) -> Result<ToolSpec, String> {
    let declared_name = declared.get("name").and_then(Value::as_str).unwrap_or_default();
    let shown: String = declared_name.chars().take(40).collect();
    if declared_name.is_empty() || declared_name.len() > MAX_NAME {
        return Err(format!("{shown:?} is left out: its name must have 1 to {MAX_NAME} bytes"));
    }
    let size = serde_json::to_vec(declared).map_or(usize::MAX, |json| json.len());
    if size > MAX_DEFINITION {
        return Err(format!(
            "{shown:?} is left out: its definition has {size} bytes, and the limit is {MAX_DEFINITION}"
        ));
    }
    let unseen = |kind: FlagKind| matches!(kind, FlagKind::HiddenText | FlagKind::TerminalEscape);
    if let Some(flag) = trust::flags(declared).into_iter().find(|flag| unseen(flag.kind)) {
        return Err(format!("{shown:?} has {} in {} and is left out", flag.kind.as_str(), flag.at));
    }
    let mut definition = declared.clone();
    definition::clean(&mut definition).map_err(|why| format!("{shown:?} {why} and is left out"))?;
    catalog::bound_description(&mut definition);
    let input_schema = definition.remove("inputSchema").unwrap_or_default();
    // A node is called with arguments only, without headers.
    if param_headers(&input_schema).is_ok_and(|marks| !marks.is_empty()) {
        return Err(format!(
            "{shown:?} requires arguments in headers, which links do not carry, and is left out"
        ));
    }
    let text = |member: &str| definition.get(member).and_then(Value::as_str).map(str::to_owned);
    let tool =
        plexus_proto::tool_name::split(declared_name).map_or(declared_name, |(_, tool)| tool).to_owned();
    let mut annotations = catalog::annotations(&definition);
    annotations.idempotent_hint |= annotations.read_only_hint;
    Ok(ToolSpec {
        name: Cow::Owned(name),
        title: Cow::Owned(text("title").unwrap_or_else(|| tool.clone())),
        description: Cow::Owned(text("description").unwrap_or_default()),
        input_schema,
        output_schema: definition.get("outputSchema").cloned(),
        access: Access { annotations, bufferable: false, repeated: false },
        actions: Vec::new(),
        placement: Placement::Upstream(Arc::new(UpstreamTool {
            node: Some(host.clone()),
            definition,
            ..UpstreamTool::new(slug, tool)
        })),
        deadline: DEADLINE,
        time: None,
        admin: false,
        starts_agents: false,
        handling: plexus_tools::Handling::default(),
    })
}

#[cfg(test)]
mod tests;
