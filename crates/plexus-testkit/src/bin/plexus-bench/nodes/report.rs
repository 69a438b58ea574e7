//! Formats the results of a run as Markdown tables.

use std::fmt::Write as _;

use anyhow::Result;

use super::Measured;

pub(super) fn text(measured: &Measured) -> Result<String> {
    let Measured { machine, round_trips, floods, idle } = measured;
    let mut text = String::new();
    writeln!(text, "{machine}\n")?;
    writeln!(
        text,
        "| link | bare WebSocket echo | hub to node and back | relative to the echo [≤ 3 over ws] | whole call of an MCP client |"
    )?;
    writeln!(text, "|---|--:|--:|--:|--:|")?;
    for trip in round_trips {
        writeln!(
            text,
            "| {} | {:.0} µs | {:.0} µs | {:.2} × | {:.0} µs |",
            trip.transport,
            trip.echo_us,
            trip.way_us,
            trip.times_echo(),
            trip.call_us,
        )?;
    }
    writeln!(
        text,
        "\n| 100 MB of output over | duration | answer | memory added to the hub | memory added to the node |"
    )?;
    writeln!(text, "|---|--:|--:|--:|--:|")?;
    for flood in floods {
        let answer = flood.answer as f64 / 1e3;
        writeln!(
            text,
            "| {} | {:.1} s | {answer:.0} kB | {:.1} MB | {:.1} MB |",
            flood.transport, flood.seconds, flood.hub_mb, flood.node_mb,
        )?;
    }
    writeln!(text, "\n| idle nodes | hub before | hub after | per node | CPU of the hub per node |")?;
    writeln!(text, "|---|--:|--:|--:|--:|")?;
    writeln!(
        text,
        "| {} | {:.1} MB | {:.1} MB | {:.0} kB | {:.0} µs/s |",
        idle.nodes, idle.rss_before_mb, idle.rss_after_mb, idle.kb_per_node, idle.cpu_us_per_node,
    )?;
    Ok(text)
}
