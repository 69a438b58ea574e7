//! `plexus status`: how the hub is doing.

use std::process::ExitCode;

use plexus_proto::api::{Status, UpstreamCounts};

use super::Invocation;
use crate::failure::Exit;

pub(crate) async fn run(invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let hub = invocation.hub()?;
    let answer = hub.get(&["status"], &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let status: Status = answer.decode()?;
    let chain = match (&status.audit.head, status.audit.intact_at_start) {
        (_, false) => "BROKEN when the hub started",
        (None, true) => "nothing is on record yet",
        (Some(_), true) => "matched its signed head at the start; `plexus audit verify` checks all of it",
    };
    let head = status
        .audit
        .head
        .map_or_else(|| "none yet".to_owned(), |head| format!("entry {} {}", head.n, head.hash));
    let uptime = i64::try_from(status.uptime_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
    out.fields(&[
        ("hub", hub.url().to_owned()),
        ("version", status.version),
        ("instance", status.instance_id),
        ("started", out.at(status.started_at)),
        ("uptime", out.lasting(uptime)),
        ("database", status.database),
        ("durability", status.durability),
        ("tools", tools(status.tools, status.broken_tools)),
        ("servers", servers(&status.upstreams)),
        ("mcp sessions", status.mcp_sessions.to_string()),
        ("calls in flight", status.calls_in_flight.to_string()),
        ("audit chain", chain.to_owned()),
        ("audit head", head),
    ])?;
    if !status.audit.intact_at_start {
        out.note("The audit chain did not match its signed head: see `plexus audit verify`.");
    }
    Ok(Exit::Ok.into())
}

/// The tools that there are, and those that there should be.
fn tools(count: usize, broken: usize) -> String {
    match broken {
        0 => count.to_string(),
        _ => format!("{count} ({broken} of your own on and broken: see `plexus tools list --defined`)"),
    }
}

/// The MCP servers behind the hub, in words.
fn servers(counts: &UpstreamCounts) -> String {
    let UpstreamCounts {
        total,
        ready,
        starting,
        idle,
        disabled,
        down,
        failed,
        invalid,
        needs_login,
        quarantined,
    } = *counts;
    if total == 0 {
        return "none; `plexus upstream add` puts one behind the hub".to_owned();
    }
    let others = [
        (starting, "starting"),
        (idle, "idle"),
        (disabled, "disabled"),
        (down, "down"),
        (failed, "failed"),
        (invalid, "invalid"),
        (needs_login, "wanting a login"),
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let held = match quarantined {
        0 => String::new(),
        count => format!(", {} in quarantine", super::upstream::tools(count)),
    };
    let look = down + failed + invalid + needs_login + quarantined > 0;
    let look = if look { ": see `plexus upstream list`" } else { "" };
    format!("{ready} ready of {total}{others}{held}{look}")
}
