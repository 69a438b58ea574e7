//! The tables of a run.

use std::fmt::Write as _;

use anyhow::Result;

use super::Measured;

pub(super) fn text(measured: &Measured) -> Result<String> {
    let Measured { machine, round_trips, floods, idle } = measured;
    let mut text = String::new();
    writeln!(text, "{machine}\n")?;
    writeln!(
        text,
        "| link | bare WebSocket echo | hub to node to hub | in echoes [≤ 3 over ws] | the whole call, for an MCP client |"
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
    writeln!(text, "\n| 100 MB of output over | takes | answer | hub above rest | node above rest |")?;
    writeln!(text, "|---|--:|--:|--:|--:|")?;
    for flood in floods {
        let answer = flood.answer as f64 / 1e3;
        writeln!(
            text,
            "| {} | {:.1} s | {answer:.0} kB | {:.1} MB | {:.1} MB |",
            flood.transport, flood.seconds, flood.hub_mb, flood.node_mb,
        )?;
    }
    writeln!(text, "\n| idle nodes | hub before | hub with them | each | CPU of the hub, each |")?;
    writeln!(text, "|---|--:|--:|--:|--:|")?;
    writeln!(
        text,
        "| {} | {:.1} MB | {:.1} MB | {:.0} kB | {:.0} µs a second |",
        idle.nodes, idle.rss_before_mb, idle.rss_after_mb, idle.kb_per_node, idle.cpu_us_per_node,
    )?;
    Ok(text)
}
