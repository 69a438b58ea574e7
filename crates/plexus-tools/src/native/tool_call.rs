//! `tool_call`: calls any tool by name, for clients that have not loaded it.
//!
//! It has no handler. The dispatcher unwraps it first, so the call is validated, limited and recorded once, as a call
//! of its target.

pub(crate) use plexus_proto::tool_name::CALL as NAME;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::{Access, Alias, Tool, ToolSpec};

/// As agents call them in tools of their own.
const ALIASES: &[Alias] = &[
    Alias::new("name", &["tool", "tool_name"]),
    Alias::new("arguments", &["args", "parameters", "params", "input"]),
];

// The dispatcher reads the JSON; the type only provides the schema.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Args {
    /// Name of the tool, as shown by `list_tools` or `tool_search`.
    name: String,
    /// Arguments of that tool.
    arguments: Option<Map<String, Value>>,
}

pub(super) fn tool() -> Tool {
    let anything = Access { bufferable: false, ..Access::ADD };
    let annotations = plexus_proto::api::ToolAnnotations {
        destructive_hint: true,
        open_world_hint: true,
        ..anything.annotations
    };
    let spec = ToolSpec::hub(
        NAME,
        "Call a tool",
        "Calls another tool of this hub by name, as if you had called it yourself.",
        Access { annotations, ..anything },
    );
    Tool::indirect::<Args>(spec.with_aliases(ALIASES))
}
