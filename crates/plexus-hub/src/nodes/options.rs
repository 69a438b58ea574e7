//! Limits and time-outs of nodes.

use std::time::Duration;

use plexus_kit::config::NodesConfig;

#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Interval between two pings.
    pub heartbeat: Duration,
    /// Number of heartbeats without a frame of the node after which its link is cut.
    pub missed: u32,
    /// How long a node whose link broke is expected to reconnect before it counts as offline.
    pub reconnect: Duration,
    /// Time limit for the first frame of a link.
    pub hello: Duration,
    /// A test call is made after each connect and then once per this many heartbeats.
    pub probe_every: u32,
    /// Time limit of a test call.
    pub probe: Duration,
    /// How long a node may take to read one frame; a slower one is disconnected.
    pub slow: Duration,
    /// How long running calls may continue when the hub stops, before the links to their nodes are closed.
    pub farewell: Duration,
    /// Maximum number of calls in flight per node.
    pub calls: usize,
}

impl NodeOptions {
    /// The other times are derived from how long a node may be silent.
    #[must_use]
    pub fn new(config: &NodesConfig) -> Self {
        let silence = config.heartbeat * config.missed;
        Self {
            heartbeat: config.heartbeat,
            missed: config.missed,
            reconnect: silence / 10,
            hello: silence / 3,
            probe_every: 6,
            probe: config.heartbeat,
            slow: silence * 2 / 3,
            farewell: Duration::from_secs(2),
            calls: 256,
        }
    }
}
