//! `/api/v1/nodes`: the machines that tools run on.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{NodeId, Timestamp};

/// Whether calls get through to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Linked, and calls work.
    Online,
    /// Linked, but the calls that test it do not come back.
    Unwell,
    /// Not linked now.
    Offline,
    /// It has joined and was never linked.
    New,
}

impl NodeState {
    /// The state as it stands in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Unwell => "unwell",
            Self::Offline => "offline",
            Self::New => "new",
        }
    }
}

/// What carries the frames of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeTransport {
    /// The hub's own machine: nothing does.
    Memory,
    WebSocket,
    /// Requests that wait for an answer, where WebSockets do not get through.
    Poll,
}

impl NodeTransport {
    /// The transport as it stands in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::WebSocket => "web_socket",
            Self::Poll => "poll",
        }
    }
}

/// A machine as it is now. What it says of itself is as it said last, also while it is away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub id: NodeId,
    pub name: String,
    pub state: NodeState,
    /// Why calls do not get through, in words.
    #[serde(default)]
    #[schema(required)]
    pub problem: Option<String>,
    /// It takes no new calls.
    pub draining: bool,
    /// Labels of the hub, and beside them those of the machine's own configuration.
    pub labels: BTreeMap<String, String>,
    /// `linux`, `macos` …; null before its first link.
    #[schema(required)]
    pub os: Option<String>,
    #[schema(required)]
    pub arch: Option<String>,
    #[schema(required)]
    pub hostname: Option<String>,
    /// What commands are held by there: `bubblewrap`, `landlock`, `none`, or `unavailable`, where its policy asks for what it
    /// does not have and nothing is run; null where it does not say.
    #[serde(default)]
    #[schema(required)]
    pub sandbox: Option<String>,
    /// Of Plexus there.
    #[schema(required)]
    pub version: Option<String>,
    /// Null while it is away.
    #[schema(required)]
    pub transport: Option<NodeTransport>,
    /// Milliseconds to it and back, as last measured.
    #[schema(required)]
    pub rtt_ms: Option<f64>,
    /// Null: never.
    #[schema(required)]
    pub last_seen_at: Option<Timestamp>,
    /// When it joined.
    pub created_at: Timestamp,
    /// Tools that it has of itself.
    pub tools: Vec<String>,
    /// MCP servers that run there.
    pub mcp_servers: Vec<NodeServer>,
    /// Profiles of agents that it can run.
    pub profiles: Vec<String>,
    /// Calls that were sent to it, or wait for it, and have not ended.
    pub in_flight: u64,
}

/// An MCP server that runs on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeServer {
    pub name: String,
    /// As `/api/v1/upstreams` has it.
    pub state: String,
    /// Names of its tools, as they are called through the hub.
    pub tools: Vec<String>,
}

/// Body of `POST /api/v1/nodes/invites`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InviteNodeParams {
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$")]
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// For how long the code is good; absent: 15 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub ttl_seconds: Option<u64>,
    /// For a node that is there and has lost its credential; the one it had ends when the code is used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejoin: bool,
}

/// An invitation that nobody has used yet, without its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingInvite {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// For a node that is there already.
    pub rejoin: bool,
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The one answer that carries the code; it is not stored and cannot be shown again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeInvite {
    /// Good for one machine, once.
    pub code: String,
    /// Where the machine is to dial, as far as the hub knows.
    pub hub: String,
    pub expires_at: Timestamp,
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

impl fmt::Debug for NodeInvite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeInvite")
            .field("name", &self.name)
            .field("code", &"[redacted]")
            .finish_non_exhaustive()
    }
}

/// Body of `POST /api/v1/nodes/join`: the code of an invitation, or the key that the hub's settings name, with a name; or
/// nothing, of a machine whose certificate says who it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinNodeParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// `PLEXUS_NODE_KEY`, the same on the hub and on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// With a key only: an invitation has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$")]
    pub name: Option<String>,
    /// With a key only.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl fmt::Debug for JoinNodeParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinNodeParams").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a machine shows from now on when it dials. Not stored by the hub.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCredential {
    pub node_id: NodeId,
    pub name: String,
    /// Null for a machine that shows a certificate, and needs nothing else.
    #[serde(default)]
    #[schema(required)]
    pub token: Option<String>,
    pub expires_at: Timestamp,
}

impl fmt::Debug for NodeCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeCredential")
            .field("node_id", &self.node_id)
            .field("name", &self.name)
            .field("token", &"[redacted]")
            .finish_non_exhaustive()
    }
}

/// Body of `PATCH /api/v1/nodes/{node}`; what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeNodeParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$")]
    pub name: Option<String>,
    /// The hub's own labels, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Of the hub's own labels these: each gets the value, or is taken away where that is null. The others stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub change_labels: BTreeMap<String, Option<String>>,
    /// Whether it is to take no new calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
}

/// A machine that was taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedNode {
    pub id: NodeId,
    pub name: String,
}
