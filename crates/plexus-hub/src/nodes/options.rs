//! How the hub treats its nodes.

use std::time::Duration;

use plexus_kit::config::NodesConfig;

#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Between two pings.
    pub heartbeat: Duration,
    /// Heartbeats without a frame of the node after which its link is cut.
    pub missed: u32,
    /// For how long a node whose link broke without a word is waited for before it counts as offline.
    pub reconnect: Duration,
    /// For the first frame of a link.
    pub hello: Duration,
    /// A call that does nothing is made after each connect and then after so many heartbeats.
    pub probe_every: u32,
    /// What such a call may take.
    pub probe: Duration,
    /// What a node may take to read one frame; a slower one is cut off.
    pub slow: Duration,
    /// What calls under way get when the hub stops, before their nodes are left alone with them.
    pub farewell: Duration,
    /// Calls under way to one node.
    pub calls: usize,
}

impl NodeOptions {
    /// The other times follow from how long a node may be silent.
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
