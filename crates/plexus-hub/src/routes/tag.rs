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
        (HUB, "How the hub is doing and what it runs with."),
        (TOOLS, "What can be called."),
        (UPSTREAMS, "The MCP servers behind the hub."),
        (NODES, "The machines that tools run on."),
        (AGENTS, "Agents of others that are connected to the hub: their files and how they are."),
        (SESSIONS, "What agents did, as append-only logs of events."),
        (PROFILES, "What agents are for, and which tools they are shown."),
        (TOKENS, "Who may do what."),
        (AUDIT, "The record of all calls."),
    ]
    .map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build())
    .into()
}
