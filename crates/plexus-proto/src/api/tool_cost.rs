//! `/api/v1/tools/cost`: what the tools that a token is shown take of a model's context.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens of everything that a client puts into a model's context because of the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolsCost {
    /// The vocabulary that was counted with.
    pub tokenizer: String,
    /// The profile whose view this is; null for a token without one.
    #[schema(required)]
    pub profile: Option<String>,
    /// All together.
    pub tokens: u64,
    /// The dearest first.
    pub servers: Vec<ServerCost>,
    /// Those that are listed, the dearest first.
    pub tools: Vec<ToolCost>,
    /// Of a thin profile: what is not listed, and so costs nothing.
    #[schema(required)]
    pub unlisted: Option<UnlistedCost>,
}

/// What one server adds, or the hub itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServerCost {
    /// Its part of the names of its tools; null for the hub itself.
    #[schema(required)]
    pub server: Option<String>,
    /// How many of its tools are listed.
    pub tools: usize,
    pub tool_tokens: u64,
    /// What models are told about it when a client connects.
    pub instruction_tokens: u64,
    pub tokens: u64,
    /// Of all tokens, in percent.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolCost {
    pub name: String,
    /// As in `servers`.
    #[schema(required)]
    pub server: Option<String>,
    pub tokens: u64,
    /// Of all tokens, in percent.
    pub share: f64,
}

/// Tools that `tool_search` finds and `tool_call` calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnlistedCost {
    pub tools: usize,
    /// What they would cost if they were listed.
    pub tokens: u64,
}
