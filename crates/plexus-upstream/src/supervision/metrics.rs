//! Metrics of the servers. Labels are file names, so their number is bounded by the number of servers.

use std::sync::Arc;

use plexus_kit::Metrics;
use plexus_kit::metrics::{Counter, Family, Gauge, Label};
use plexus_proto::api::UpstreamState;

type Server = Label<Arc<str>>;
type ServerState = (Server, Label<&'static str>);

#[derive(Debug, Default)]
pub(super) struct UpstreamMetrics {
    states: Family<ServerState, Gauge>,
    restarts: Family<Server, Counter>,
    in_flight: Family<Server, Gauge>,
}

impl UpstreamMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        let about = "State of an upstream server: 1 for the current state";
        metrics.add("plexus_upstream_state", about, self.states.clone());
        let about = "Restarts and reconnects of an upstream server";
        metrics.add("plexus_upstream_restarts", about, self.restarts.clone());
        let about = "Running and waiting calls of an upstream server";
        metrics.add("plexus_upstream_calls_in_flight", about, self.in_flight.clone());
    }

    /// The metrics of a server: calls in flight and restarts.
    pub(super) fn of(&self, server: &str) -> (Gauge, Counter) {
        let label = [("server", Arc::from(server))];
        (self.in_flight.get_or_create_owned(&label), self.restarts.get_or_create_owned(&label))
    }

    pub(super) fn state(&self, server: &str, before: UpstreamState, now: UpstreamState) {
        let label = |state: UpstreamState| ([("server", Arc::from(server))], [("state", state.as_str())]);
        if before != now {
            self.states.remove(&label(before));
        }
        self.states.get_or_create(&label(now)).set(1);
    }

    /// Removes the metrics of a server that was removed.
    pub(super) fn forget(&self, server: &str, last: UpstreamState) {
        let label = [("server", Arc::from(server))];
        self.states.remove(&(label.clone(), [("state", last.as_str())]));
        self.restarts.remove(&label);
        self.in_flight.remove(&label);
    }
}
