//! The tables of a run.

use super::Measured;
use crate::report::Table;

pub(super) fn text(measured: &Measured) -> String {
    let Measured { machine, round_trips, floods, idle } = measured;
    let (us, mb) = (|figure: f64| format!("{figure:.0} µs"), |figure: f64| format!("{figure:.1} MB"));
    let mut trips = Table::new(&[
        "link",
        "bare WebSocket echo",
        "hub to node and back",
        "relative to the echo [≤ 3 over ws]",
        "whole call of an MCP client",
    ]);
    for trip in round_trips {
        let times = format!("{:.2} ×", trip.times_echo());
        trips.add([trip.transport.to_owned(), us(trip.echo_us), us(trip.way_us), times, us(trip.call_us)]);
    }
    let mut outputs = Table::new(&[
        "100 MB of output over",
        "duration",
        "answer",
        "memory added to the hub",
        "memory added to the node",
    ]);
    for flood in floods {
        let (seconds, answer) = (format!("{:.1} s", flood.seconds), flood.answer as f64 / 1e3);
        let answer = format!("{answer:.0} kB");
        outputs.add([flood.transport.to_owned(), seconds, answer, mb(flood.hub_mb), mb(flood.node_mb)]);
    }
    let heads = ["idle nodes", "hub before", "hub after", "per node", "CPU of the hub per node"];
    let mut nodes = Table::new(&heads);
    let (per_node, cpu) =
        (format!("{:.0} kB", idle.kb_per_node), format!("{:.0} µs/s", idle.cpu_us_per_node));
    nodes.add([idle.nodes.to_string(), mb(idle.rss_before_mb), mb(idle.rss_after_mb), per_node, cpu]);
    format!("{machine}\n\n{}\n{}\n{}", trips.render(), outputs.render(), nodes.render())
}
