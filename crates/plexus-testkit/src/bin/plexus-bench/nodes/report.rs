//! The tables of a run.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Measured;
use crate::report::{Marks, put_between, save};

/// In a Markdown file, the tables stand between these lines.
const MARKS: Marks = Marks {
    begin: "<!-- Written by `make bench ARGS=nodes`: begin -->",
    end: "<!-- Written by `make bench ARGS=nodes`: end -->",
};

pub(super) fn write(measured: &Measured, json: Option<&Path>, docs: Option<&Path>) -> Result<()> {
    let text = text(measured)?;
    println!("{text}");
    if let Some(path) = json {
        save(path, &format!("{}\n", serde_json::to_string_pretty(measured).context("JSON")?))?;
    }
    if let Some(path) = docs {
        let page = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        save(path, &put_between(&page, MARKS, &text).with_context(|| path.display().to_string())?)?;
    }
    Ok(())
}

fn text(measured: &Measured) -> Result<String> {
    let Measured { machine, round_trips, floods, idle } = measured;
    let mut text = String::new();
    writeln!(text, "{}, {} cores, {}; {}.\n", machine.cpu, machine.cores, machine.plexus, machine.date)?;
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
