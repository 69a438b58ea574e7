//! Options and limits of a node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::{Clock, Environment};
use plexus_proto::NodeId;

#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub id: NodeId,
    /// Database, jobs and files of the node, for its exclusive use.
    pub data_dir: PathBuf,
    pub environment: Environment,
    pub clock: Clock,
    /// Labels that the machine reports; labels set on the hub take precedence.
    pub labels: BTreeMap<String, String>,
    /// Folder with one file per MCP server to run here; none for no servers.
    pub servers: Option<PathBuf>,
    pub limits: NodeLimits,
    /// Further folders to deny to callers like `data_dir`, such as the data folder of the hub that runs this node.
    pub private: Vec<PathBuf>,
    /// The program that starts a command in its sandbox, see [`plexus_machine::Machine`].
    pub launcher: Option<PathBuf>,
}

impl NodeOptions {
    #[must_use]
    pub fn new(id: NodeId, data_dir: PathBuf, environment: Environment) -> Self {
        Self {
            id,
            data_dir,
            environment,
            clock: Clock::system(),
            labels: BTreeMap::new(),
            servers: None,
            limits: NodeLimits::default(),
            private: Vec::new(),
            launcher: None,
        }
    }
}

/// Limits of a node, which hold whatever the hub sends.
#[derive(Debug, Clone, Copy)]
pub struct NodeLimits {
    /// Concurrent calls; a call above the limit is refused.
    pub running: usize,
    /// Calls that are held, including ended ones that the hub has not confirmed.
    pub unconfirmed: usize,
    /// Maximum size of a result.
    pub output_bytes: usize,
    /// Time limit for the hub's answer to `hello`.
    pub welcome: Duration,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self { running: 64, unconfirmed: 1024, output_bytes: 2 << 20, welcome: Duration::from_secs(20) }
    }
}
