//! `/api/v1/nodes`: the machines that tools run on.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{NodeId, Timestamp};

/// Whether a machine is reachable for calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Linked, and calls succeed.
    Online,
    /// Linked, but test calls are not answered.
    Unwell,
    /// Not linked.
    Offline,
    /// Joined but never linked.
    New,
}

impl NodeState {
    /// The state as written in JSON.
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

/// Transport of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeTransport {
    /// In-process link of the hub's own machine.
    Memory,
    WebSocket,
    /// HTTP long polling, for networks that block WebSockets.
    Poll,
}

impl NodeTransport {
    /// The transport as written in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::WebSocket => "web_socket",
            Self::Poll => "poll",
        }
    }
}

/// A machine and its current state. Properties reported by the machine are those of its last report, even
/// while it is offline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub id: NodeId,
    pub name: String,
    pub state: NodeState,
    /// Why calls do not reach the machine.
    #[serde(default)]
    #[schema(required)]
    pub problem: Option<String>,
    /// Whether it accepts no new calls.
    pub draining: bool,
    /// Labels set on the hub, merged with those of the machine's own configuration.
    pub labels: BTreeMap<String, String>,
    /// `linux`, `macos` …; null before its first link.
    #[schema(required)]
    pub os: Option<String>,
    #[schema(required)]
    pub arch: Option<String>,
    #[schema(required)]
    pub hostname: Option<String>,
    /// Sandbox that confines commands: `bubblewrap`, `landlock`, `none`, or `unavailable` if the machine's
    /// policy requires one that it lacks, in which case no command is run; null if not reported.
    #[serde(default)]
    #[schema(required)]
    pub sandbox: Option<String>,
    /// Plexus version on the machine.
    #[schema(required)]
    pub version: Option<String>,
    /// Null while it is offline.
    #[schema(required)]
    pub transport: Option<NodeTransport>,
    /// Round-trip time in milliseconds, as last measured.
    #[schema(required)]
    pub rtt_ms: Option<f64>,
    /// Null if it was never seen.
    #[schema(required)]
    pub last_seen_at: Option<Timestamp>,
    /// When it joined.
    pub created_at: Timestamp,
    /// Native tools of the machine.
    pub tools: Vec<String>,
    /// MCP servers that run there.
    pub mcp_servers: Vec<NodeServer>,
    /// Agent profiles that it can run.
    pub profiles: Vec<String>,
    /// Number of unfinished calls that are queued for it or were sent to it.
    pub in_flight: u64,
}

/// An MCP server that runs on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeServer {
    pub name: String,
    /// As in `/api/v1/upstreams`.
    pub state: String,
    /// Tool names, as called through the hub.
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
    /// Lifetime of the code in seconds; absent: 15 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub ttl_seconds: Option<u64>,
    /// For an existing node that lost its credential; using the code invalidates the old credential.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejoin: bool,
}

/// An unused invitation, without its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingInvite {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// For an existing node.
    pub rejoin: bool,
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The only answer that carries the code; it is not stored and cannot be shown again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeInvite {
    /// Valid for one machine and one use.
    pub code: String,
    /// Address for the machine to dial, as far as the hub knows it.
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

/// Body of `POST /api/v1/nodes/join`: the code of an invitation, or the key from the hub's settings together
/// with a name; empty for a machine that identifies itself with a certificate.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinNodeParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// `PLEXUS_NODE_KEY`, the same on the hub and on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only with a key: an invitation already contains the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$")]
    pub name: Option<String>,
    /// Only with a key.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl fmt::Debug for JoinNodeParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinNodeParams").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The credential that the machine presents when it dials. Not stored by the hub.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCredential {
    pub node_id: NodeId,
    pub name: String,
    /// Null for a machine that authenticates with a certificate.
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

/// Body of `PATCH /api/v1/nodes/{node}`; absent fields are left unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeNodeParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$")]
    pub name: Option<String>,
    /// Replaces all labels set on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Changes single labels set on the hub: sets each to the value, or removes it if the value is null.
    /// Other labels are left unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub change_labels: BTreeMap<String, Option<String>>,
    /// Whether it must stop accepting new calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
}

/// A removed machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedNode {
    pub id: NodeId,
    pub name: String,
}
