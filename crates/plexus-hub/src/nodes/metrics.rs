//! Metrics of the links to machines.

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
        metrics.add("plexus_node_links", "Admitted links of nodes", self.links.clone());
        metrics.add(
            "plexus_node_results_unwanted",
            "Results of nodes for calls without a waiting caller",
            self.unwanted.clone(),
        );
        metrics.add("plexus_node_unwell", "Failed test calls of nodes", self.unwell.clone());
        metrics.add("plexus_node_rtt_seconds", "Round-trip times of heartbeats", self.rtt.clone());
        metrics.add(
            "plexus_node_call_seconds",
            "Duration of calls to nodes, including the time they waited for the node",
            self.calls.clone(),
        );
        let nodes = gateway.clone();
        metrics.read("plexus_nodes", "Nodes that have joined", move || count(nodes.all().len()));
        let nodes = gateway.clone();
        metrics.read("plexus_nodes_online", "Nodes that are online", move || {
            count(nodes.all().iter().filter(|node| node.online).count())
        });
        let nodes = gateway.clone();
        metrics.read(
            "plexus_node_calls_in_flight",
            "Calls that run on nodes or are queued for them",
            move || count(nodes.units().iter().map(|unit| unit.lock().in_flight()).sum()),
        );
    }
}
