//! `/api/v1/tools/cost`: how much of a model's context the tools shown to a token take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Number of tokens that clients add to a model's context for the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolsCost {
    /// The tokenizer used for counting.
    pub tokenizer: String,
    /// The profile of the token; null if it has none.
    #[schema(required)]
    pub profile: Option<String>,
    /// Total.
    pub tokens: u64,
    /// Most expensive first.
    pub servers: Vec<ServerCost>,
    /// Listed tools, most expensive first.
    pub tools: Vec<ToolCost>,
    /// For a thin profile: tools that are not listed, and so cost nothing.
    #[schema(required)]
    pub unlisted: Option<UnlistedCost>,
}

/// Cost of one server, or of the hub itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServerCost {
    /// The server's part of its tool names; null for the hub itself.
    #[schema(required)]
    pub server: Option<String>,
    /// Number of its tools that are listed.
    pub tools: usize,
    pub tool_tokens: u64,
    /// Cost of the server instructions that models receive when a client connects.
    pub instruction_tokens: u64,
    pub tokens: u64,
    /// Share of all tokens, in percent.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolCost {
    pub name: String,
    /// As in `servers`.
    #[schema(required)]
    pub server: Option<String>,
    pub tokens: u64,
    /// Share of all tokens, in percent.
    pub share: f64,
}

/// Tools available only through `tool_search` and `tool_call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnlistedCost {
    pub tools: usize,
    /// Their cost if they were listed.
    pub tokens: u64,
}
