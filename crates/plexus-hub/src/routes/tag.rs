//! The resources of the REST API, as the OpenAPI document groups them.

use utoipa::openapi::tag::{Tag, TagBuilder};

pub(super) const HUB: &str = "hub";
pub(super) const TOOLS: &str = "tools";
pub(super) const UPSTREAMS: &str = "upstreams";
pub(super) const NODES: &str = "nodes";
pub(super) const AGENTS: &str = "external agents";
pub(super) const SESSIONS: &str = "sessions";
pub(super) const PROFILES: &str = "profiles";
pub(super) const TOKENS: &str = "tokens";
pub(super) const AUDIT: &str = "audit";

pub(super) fn all() -> Vec<Tag> {
    [
        (HUB, "Status and configuration of the hub."),
        (TOOLS, "The tools that can be called."),
        (UPSTREAMS, "The MCP servers behind the hub."),
        (NODES, "The machines that tools run on."),
        (AGENTS, "Third-party agents that are connected to the hub, with the state of their files."),
        (SESSIONS, "Activity of agents, as append-only event logs."),
        (PROFILES, "Purposes of agents, and the tools that each profile shows."),
        (TOKENS, "Access tokens and their scopes."),
        (AUDIT, "The tamper-evident log of all calls."),
    ]
    .map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build())
    .into()
}
