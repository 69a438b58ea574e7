//! `list_tools`: lists the tools that the caller may use, for models that see only part of the list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Access, CallError, Outcome, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool};

pub(super) const NAME: &str = "list_tools";

pub(super) struct ListTools;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// List only tools whose name begins with this prefix.
    prefix: Option<String>,
    /// Include the input schema of each tool.
    #[serde(default)]
    schemas: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) description: String,
    /// Values of the argument `action` that you may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub(super) input_schema: Option<Value>,
}

impl Entry {
    pub(super) fn of(tool: &Tool, schema: bool) -> Self {
        let spec = tool.spec();
        Self {
            name: tool.name().to_owned(),
            title: spec.title.to_string(),
            description: spec.description.to_string(),
            actions: spec.actions.iter().map(|action| action.name.to_string()).collect(),
            input_schema: schema.then(|| spec.input_schema.clone()),
        }
    }

    pub(super) fn line(&self) -> String {
        let actions = match self.actions.is_empty() {
            true => String::new(),
            false => format!(" [{}]", self.actions.join(", ")),
        };
        let schema =
            self.input_schema.as_ref().map_or(String::new(), |schema| format!("\n  arguments: {schema}"));
        format!("{}{actions}: {}{schema}", self.name, self.description)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    pub(super) tools: Vec<Entry>,
}

impl Output {
    pub(super) fn into_tool_output(self, empty: &str) -> ToolOutput {
        let text = match self.tools.is_empty() {
            true => empty.to_owned(),
            false => self.tools.iter().map(Entry::line).collect::<Vec<_>>().join("\n"),
        };
        ToolOutput::new(text, &self)
    }
}

impl TypedTool for ListTools {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::hub(
            NAME,
            "List tools",
            "Lists every tool you may use through this hub, including those your client has not loaded.",
            Access::READ,
        )
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let prefix = args.prefix.unwrap_or_default();
        let schemas = args.schemas.unwrap_or_default();
        let tools = context
            .visible
            .tools()
            .filter(|tool| tool.name().starts_with(&prefix) || tool.spec().name.starts_with(&prefix))
            .map(|tool| Entry::of(tool, schemas))
            .collect();
        Ok(Outcome::Ready(Output { tools }.into_tool_output("No tool name begins with this prefix.")))
    }
}
