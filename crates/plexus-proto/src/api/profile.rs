//! `/api/v1/profiles`: what agents are for, and which tools they are shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What another agent reads to choose a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ProfileDescription {
    pub specialization: String,
    pub when_to_use: String,
    pub key_tools: Vec<String>,
}

/// A server that a profile names, with the tools it shows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProfileServer {
    /// As the profile names it.
    pub server: String,
    pub tools: Vec<String>,
}

/// What keeps a profile from being used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProfileProblem {
    pub file: String,
    /// Such as `enabled_tools[2]`; empty where it is about the file as a whole.
    pub field: String,
    pub message: String,
}

/// A profile. Its tools are those there are now, as far as the asking token sees them, by canonical name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    /// What a token names.
    pub id: String,
    pub name: String,
    pub description: String,
    pub full_description: ProfileDescription,
    /// Whether agents have it that nobody gave another.
    pub default: bool,
    /// Its file; null for one that comes with the program.
    #[schema(required)]
    pub file: Option<String>,
    /// Whether it can be used. Where it cannot, tokens that name it see no tools.
    pub usable: bool,
    /// Everything that is wrong with its files.
    pub problems: Vec<ProfileProblem>,
    /// What names nothing that is there; it stops nothing.
    pub warnings: Vec<String>,
    /// Tools that a token of this profile is shown, those of servers included.
    pub enabled_tools: Vec<String>,
    /// Of these, those that its sub-agents are shown.
    pub subagent_tools: Vec<String>,
    pub mcp_servers: Vec<ProfileServer>,
    /// Whether only `tool_search`, `tool_call` and `pinned` are listed.
    pub thin: bool,
    /// Tools that a thin profile lists all the same.
    pub pinned: Vec<String>,
    #[schema(required)]
    pub llm_backend: Option<String>,
    /// The first that answers is used; empty for that of the hub.
    pub model: Vec<String>,
    #[schema(required)]
    pub temperature: Option<f64>,
    #[schema(required)]
    pub max_iterations: Option<u32>,
    /// What `plexus run` gives agents of others, by their name, or `*` for all.
    #[serde(default)]
    #[schema(required)]
    pub run: BTreeMap<String, ProfileRun>,
    #[schema(required)]
    pub node_id: Option<String>,
    pub planning_enabled: bool,
    pub planning_mandatory: bool,
}

/// What an agent is given when it is run. What is null is the agent's own affair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ProfileRun {
    /// Whether it is connected to the hub; it is, where nothing is said.
    #[schema(required)]
    pub mcp: Option<bool>,
    /// Its model, by the name that the agent itself has for it.
    #[schema(required)]
    pub model: Option<String>,
    /// How hard it thinks, in the agent's own words.
    #[schema(required)]
    pub effort: Option<String>,
    /// When it asks a person, in the agent's own words.
    #[schema(required)]
    pub approval_mode: Option<String>,
    /// Whether it calls the hub's tools without asking a person.
    #[schema(required)]
    pub allow_tools: Option<bool>,
    /// Whether the system prompt of the profile is added to its own.
    #[schema(required)]
    pub system_prompt: Option<bool>,
    /// Folders of skills on the machine that the agent runs on.
    #[schema(required)]
    pub skills: Option<Vec<String>>,
    /// Whether its status line says that Plexus is there.
    #[schema(required)]
    pub status_line: Option<bool>,
}

impl ProfileRun {
    /// The same, and where nothing is said what `common` says.
    #[must_use]
    pub fn or(self, common: Self) -> Self {
        Self {
            mcp: self.mcp.or(common.mcp),
            model: self.model.or(common.model),
            effort: self.effort.or(common.effort),
            approval_mode: self.approval_mode.or(common.approval_mode),
            allow_tools: self.allow_tools.or(common.allow_tools),
            system_prompt: self.system_prompt.or(common.system_prompt),
            skills: self.skills.or(common.skills),
            status_line: self.status_line.or(common.status_line),
        }
    }
}

/// One profile with its prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProfileDetail {
    #[serde(flatten)]
    pub profile: Profile,
    #[schema(required)]
    pub system_prompt: Option<String>,
    #[schema(required)]
    pub subagent_system_prompt: Option<String>,
}
