//! `/api/v1/profiles`: the purposes of agents, and the tools that each profile shows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Description for agents that choose a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ProfileDescription {
    pub specialization: String,
    pub when_to_use: String,
    pub key_tools: Vec<String>,
}

/// A server named in a profile, with the tools of it that the profile shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProfileServer {
    /// The name used in the profile.
    pub server: String,
    pub tools: Vec<String>,
}

/// An error that makes a profile unusable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProfileProblem {
    pub file: String,
    /// Such as `enabled_tools[2]`; empty if the error concerns the whole file.
    pub field: String,
    pub message: String,
}

/// A profile. Its tools are the currently available tools that the requesting token can see, by canonical
/// name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    /// The id that a token refers to.
    pub id: String,
    pub name: String,
    pub description: String,
    pub full_description: ProfileDescription,
    /// Whether this is the profile of agents without an assigned one.
    pub default: bool,
    /// The profile's file; null for a built-in profile.
    #[schema(required)]
    pub file: Option<String>,
    /// Whether the profile is usable. Tokens with an unusable profile see no tools.
    pub usable: bool,
    /// All errors in its files.
    pub problems: Vec<ProfileProblem>,
    /// Names that match nothing; they do not make the profile unusable.
    pub warnings: Vec<String>,
    /// Tools shown to a token of this profile, including those of servers.
    pub enabled_tools: Vec<String>,
    /// The subset shown to its sub-agents.
    pub subagent_tools: Vec<String>,
    pub mcp_servers: Vec<ProfileServer>,
    /// Whether only `tool_search`, `tool_call` and `pinned` are listed.
    pub thin: bool,
    /// Tools that a thin profile lists in addition.
    pub pinned: Vec<String>,
    #[schema(required)]
    pub llm_backend: Option<String>,
    /// Models in order of preference: the first that answers is used; empty for the hub's model.
    pub model: Vec<String>,
    #[schema(required)]
    pub temperature: Option<f64>,
    #[schema(required)]
    pub max_iterations: Option<u32>,
    /// What `plexus run` passes to third-party agents, by agent name, or `*` for all.
    #[serde(default)]
    #[schema(required)]
    pub run: BTreeMap<String, ProfileRun>,
    #[schema(required)]
    pub node_id: Option<String>,
    pub planning_enabled: bool,
    pub planning_mandatory: bool,
}

/// Settings of an agent run. The agent decides where a value is null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ProfileRun {
    /// Whether the agent is connected to the hub; true if null.
    #[schema(required)]
    pub mcp: Option<bool>,
    /// The model, by the agent's own name for it.
    #[schema(required)]
    pub model: Option<String>,
    /// Reasoning effort, in the agent's own terms.
    #[schema(required)]
    pub effort: Option<String>,
    /// When the agent asks a person for approval, in the agent's own terms.
    #[schema(required)]
    pub approval_mode: Option<String>,
    /// Whether the agent calls the hub's tools without asking a person.
    #[schema(required)]
    pub allow_tools: Option<bool>,
    /// Whether the system prompt of the profile is added to the agent's own.
    #[schema(required)]
    pub system_prompt: Option<bool>,
    /// Folders of skills on the machine that runs the agent.
    #[schema(required)]
    pub skills: Option<Vec<String>>,
    /// Whether the agent's status line shows Plexus.
    #[schema(required)]
    pub status_line: Option<bool>,
}

impl ProfileRun {
    /// Fills unset values from `common`.
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
