//! The tables of a run.

use std::fmt::Write as _;

use anyhow::Result;

use super::Measured;
use super::calls::Times;

/// A call through a proxy may take this many times as long as one straight to the hub.
const TIMES: f64 = 1.6;
/// Memory limit of an idle proxy, in megabytes.
const MEGABYTES: f64 = 12.0;

pub(super) fn text(measured: &Measured) -> Result<String> {
    let Measured { machine, calls, away, replays, idle } = measured;
    let mut text = String::new();
    writeln!(text, "{machine}\n")?;
    writeln!(
        text,
        "| call, one at a time | client | straight, p50 / p99 | proxy over HTTP | ratio [≤ {TIMES}] | proxy over stdio | \
         ratio [≤ {TIMES}] |"
    )?;
    writeln!(text, "|---|---|--:|--:|--:|--:|--:|")?;
    for calls in calls {
        let times = |times: Times| format!("{:.0} / {:.0} µs", times.p50_us, times.p99_us);
        let ratio = |times: Times| with_budget(times.p50_us / calls.direct.p50_us, TIMES);
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} × | {} | {} × |",
            calls.call,
            calls.era,
            times(calls.direct),
            times(calls.http),
            ratio(calls.http),
            times(calls.stdio),
            ratio(calls.stdio),
        )?;
    }
    writeln!(
        text,
        "\n| stored while the hub is away, by | writes a second | ratio to writing and syncing |"
    )?;
    writeln!(text, "|---|--:|--:|")?;
    let rows = [
        ("writing and syncing a file", away.bare),
        ("the outbox alone", away.outbox),
        ("a proxy over HTTP", away.http),
        ("a proxy over stdio", away.stdio),
    ];
    for (label, rate) in rows {
        writeln!(text, "| {label} | {rate:.0} | {:.2} × |", away.bare / rate)?;
    }
    writeln!(text, "\n| queued writes | conversations | first delivered after | all | writes a second |")?;
    writeln!(text, "|--:|--:|--:|--:|--:|")?;
    for replay in replays {
        writeln!(
            text,
            "| {} | {} | {:.0} ms | {:.1} s | {:.0} |",
            replay.rows, replay.conversations, replay.found_ms, replay.seconds, replay.rows_per_second
        )?;
    }
    writeln!(text, "\n| proxy with nothing to do | in memory [≤ {MEGABYTES:.0} MB] | of it its own |")?;
    writeln!(text, "|---|--:|--:|")?;
    for idle in idle {
        let rss = with_budget(idle.rss_mb, MEGABYTES);
        writeln!(text, "| over {} | {rss} MB | {:.1} MB |", idle.way, idle.anonymous_mb)?;
    }
    Ok(text)
}

/// A figure, in bold if it exceeds its budget.
fn with_budget(figure: f64, budget: f64) -> String {
    if figure <= budget { format!("{figure:.2}") } else { format!("**{figure:.2}**") }
}
