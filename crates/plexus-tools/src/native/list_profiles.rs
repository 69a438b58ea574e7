//! `list_profiles`: lists the profiles, for an agent that chooses one for another agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool};

pub(super) struct ListProfiles;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    id: String,
    name: String,
    description: String,
    /// When to use the profile.
    #[serde(skip_serializing_if = "String::is_empty")]
    when_to_use: String,
    /// Tools that it mainly uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    key_tools: Vec<String>,
}

impl Entry {
    fn line(&self) -> String {
        let when = match self.when_to_use.is_empty() {
            true => String::new(),
            false => format!("\n  when to use: {}", self.when_to_use),
        };
        let tools = match self.key_tools.is_empty() {
            true => String::new(),
            false => format!("\n  key tools: {}", self.key_tools.join(", ")),
        };
        format!("{} ({}): {}{when}{tools}", self.id, self.name, self.description)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    profiles: Vec<Entry>,
}

impl TypedTool for ListProfiles {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::hub(
            "list_profiles",
            "List profiles",
            "Lists the profiles for agents of this hub: what each is for, when to use it, and its key tools.",
            Access::READ,
        )
    }

    async fn run(&self, context: ToolContext, _: Args) -> Result<Outcome, CallError> {
        let visible = &context.visible;
        let profiles = visible.profiles().usable().map(|profile| Entry {
            id: profile.id.clone(),
            name: profile.name.clone(),
            description: profile.description.clone(),
            when_to_use: profile.full_description.when_to_use.clone(),
            key_tools: visible.visible_names(&profile.full_description.key_tools),
        });
        let output = Output { profiles: profiles.collect() };
        let text = match output.profiles.is_empty() {
            true => "There are no profiles.".to_owned(),
            false => output.profiles.iter().map(Entry::line).collect::<Vec<_>>().join("\n"),
        };
        Ok(Outcome::Ready(ToolOutput::new(text, &output)))
    }
}
