//! Frames about the link itself: who dials, what it can do, and how both part.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{CallId, NodeId};

/// First frame of a node. On a link that is up it tells of changed capabilities; its calls are not looked at then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Versions of the link that it speaks.
    pub versions: Vec<u32>,
    pub node_id: NodeId,
    /// Names the store that it keeps calls in: a node that was set up anew has another one.
    pub store_id: Uuid,
    /// Which dial of that store this is; none from a node that does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dial: Option<Dial>,
    /// Of the program.
    pub version: String,
    pub os: String,
    pub arch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// What commands are held by there, in one word; none: it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    #[serde(default)]
    pub tools: Vec<NodeTool>,
    #[serde(default)]
    pub mcp_servers: Vec<HostedServer>,
    /// Profiles of agents that it can run.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// What its own configuration says of it; the hub's own labels win.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Calls that it holds.
    #[serde(default)]
    pub calls: Vec<InFlight>,
    /// It takes no new calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

/// Counts the links that a node opened, so that a `hello` that was held up on its way is known to be the older one. A later
/// dial is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dial {
    /// Starts of the node with this store.
    pub start: u64,
    /// Dials since then.
    pub n: u64,
}

/// A tool that a node has of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTool {
    pub name: String,
}

/// An MCP server that runs on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostedServer {
    /// Slug.
    pub name: String,
    /// In one word, as `plexus upstream list` says it.
    pub state: String,
    /// Definitions of its tools, as MCP has them: `name`, `description`, `inputSchema` …; the name is the one to call it by
    /// on the node.
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
    /// Its result is on the node's disk.
    Finished,
    /// It was running when the node stopped.
    Interrupted,
}

/// The hub's answer to `hello`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// Version that is spoken from here on.
    pub version: u32,
    /// Counts the links of this node; an older one is cut off.
    pub epoch: u64,
    /// What the hub calls the node.
    pub name: String,
    /// Milliseconds between two heartbeats.
    pub heartbeat_ms: u64,
    /// Heartbeats in a row that may be missed.
    pub missed: u32,
    /// What to do with each call that the node listed.
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
    /// Its result is wanted.
    Keep,
    /// Nobody wants it: to be stopped if it runs, and forgotten.
    Cancel,
    /// Its result is stored already.
    Forget,
}

/// A sign of life, and the answer to it with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub n: u64,
}

/// The last frame of who leaves on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// For people.
    pub reason: String,
}
