//! What is measured of the links to machines.

use plexus_kit::Metrics;
use plexus_kit::metrics::histogram::Histogram;
use plexus_kit::metrics::{Counter, count, seconds};
use plexus_tools::nodes::Nodes;

use super::gateway::Gateway;

#[derive(Debug)]
pub(super) struct NodeMetrics {
    pub(super) links: Counter,
    pub(super) unwanted: Counter,
    pub(super) unwell: Counter,
    pub(super) rtt: Histogram,
    pub(super) calls: Histogram,
}

impl Default for NodeMetrics {
    fn default() -> Self {
        Self {
            links: Counter::default(),
            unwanted: Counter::default(),
            unwell: Counter::default(),
            rtt: seconds(),
            calls: seconds(),
        }
    }
}

impl NodeMetrics {
    pub(super) fn register(&self, metrics: &Metrics, gateway: &Gateway) {
        metrics.add("plexus_node_links", "Links of nodes that were let in", self.links.clone());
        metrics.add(
            "plexus_node_results_unwanted",
            "Results of nodes for calls that nobody waited for",
            self.unwanted.clone(),
        );
        metrics.add("plexus_node_unwell", "Times that the test call of a node failed", self.unwell.clone());
        metrics.add("plexus_node_rtt_seconds", "Round trips of heartbeats", self.rtt.clone());
        metrics.add(
            "plexus_node_call_seconds",
            "Calls to nodes, from the hub to the node and back, with the time that they waited for it",
            self.calls.clone(),
        );
        let nodes = gateway.clone();
        metrics.read("plexus_nodes", "Nodes that have joined", move || count(nodes.all().len()));
        let nodes = gateway.clone();
        metrics.read("plexus_nodes_online", "Nodes that calls get through to", move || {
            count(nodes.all().iter().filter(|node| node.online).count())
        });
        let nodes = gateway.clone();
        metrics.read(
            "plexus_node_calls_in_flight",
            "Calls that nodes have, or that wait for them",
            move || count(nodes.units().iter().map(|unit| unit.lock().in_flight()).sum()),
        );
    }
}
