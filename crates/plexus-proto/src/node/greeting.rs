//! Frames about the link itself: identification, capabilities, heartbeats and closing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{CallId, NodeId};

/// First frame of a node. On an established link it announces changed capabilities; its calls are ignored
/// then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol versions that the node supports.
    pub versions: Vec<u32>,
    pub node_id: NodeId,
    /// Identifies the store in which the node keeps calls: a reinstalled node has a different one.
    pub store_id: Uuid,
    /// Sequence number of this connection attempt; `None` if the node does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dial: Option<Dial>,
    /// Version of the program.
    pub version: String,
    pub os: String,
    pub arch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Sandbox that confines commands on the node, in one word; `None` if not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    #[serde(default)]
    pub tools: Vec<NodeTool>,
    #[serde(default)]
    pub mcp_servers: Vec<HostedServer>,
    /// Agent profiles that the node can run.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// Labels from the node's own configuration; labels set on the hub take precedence.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Calls that the node holds.
    #[serde(default)]
    pub calls: Vec<InFlight>,
    /// The node accepts no new calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

/// Orders the links that a node opened, so that a delayed `hello` is recognized as outdated. A later dial
/// compares greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dial {
    /// Number of times the node has started with this store.
    pub start: u64,
    /// Number of dials since that start.
    pub n: u64,
}

/// A native tool of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTool {
    pub name: String,
}

/// An MCP server that runs on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostedServer {
    /// Slug.
    pub name: String,
    /// In one word, as printed by `plexus upstream list`.
    pub state: String,
    /// Tool definitions in MCP form (`name`, `description`, `inputSchema` …); `name` is the name for calls on
    /// the node.
    #[serde(default)]
    pub tools: Vec<Map<String, Value>>,
}

/// A call that a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    pub call_id: CallId,
    pub state: HeldState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldState {
    Running,
    /// The result is on the node's disk.
    Finished,
    /// The call was running when the node stopped.
    Interrupted,
}

/// The hub's answer to `hello`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// Protocol version for the rest of the link.
    pub version: u32,
    /// Increases with each link of this node; the hub closes links with an older epoch.
    pub epoch: u64,
    /// The node's name on the hub.
    pub name: String,
    /// Milliseconds between two heartbeats.
    pub heartbeat_ms: u64,
    /// Number of consecutive heartbeats that may be missed.
    pub missed: u32,
    /// How the node must proceed with each call that it listed.
    #[serde(default)]
    pub calls: Vec<CallOrder>,
    /// The hub sends no new calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOrder {
    pub call_id: CallId,
    pub order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The hub still needs the result.
    Keep,
    /// The result is not needed: stop the call if it is running, and discard it.
    Cancel,
    /// The hub has already stored the result.
    Forget,
}

/// A heartbeat; the answer carries the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub n: u64,
}

/// Last frame before a deliberate disconnect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// Human-readable.
    pub reason: String,
}
