//! What a node is started with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::{Clock, Environment};
use plexus_proto::NodeId;

#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub id: NodeId,
    /// Database, jobs and files of the node; nobody else's.
    pub data_dir: PathBuf,
    pub environment: Environment,
    pub clock: Clock,
    /// What the machine says of itself; the hub's own labels win.
    pub labels: BTreeMap<String, String>,
    /// Folder with one file for each MCP server to be run here; none: no servers.
    pub servers: Option<PathBuf>,
    pub limits: NodeLimits,
    /// Folders of who has this node in it, which are denied as its own is.
    pub private: Vec<PathBuf>,
    /// The program that puts a command into its sandbox, see [`plexus_machine::Machine`].
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

/// How much a node takes on, whatever the hub sends.
#[derive(Debug, Clone, Copy)]
pub struct NodeLimits {
    /// Calls that run at once; one more is refused, and nothing is run.
    pub running: usize,
    /// Calls that are held, those included whose results the hub has not confirmed.
    pub held: usize,
    /// Bytes of a result.
    pub output_bytes: usize,
    /// For the hub to answer `hello`.
    pub welcome: Duration,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self { running: 64, held: 1024, output_bytes: 2 << 20, welcome: Duration::from_secs(20) }
    }
}
