//! The text form of `plexus status`: a block of fields, then a table for each list that is not empty.
//!
//! In a pipe, each line of a list begins with the name of the list, so that lines can be selected by it.

use plexus_proto::api::{NodeState, Status, UpstreamCounts};

use super::page::{HubState, StatusPage};
use crate::commands::upstream;
use crate::output::Output;

pub(super) fn print(page: &StatusPage, out: &Output) -> anyhow::Result<()> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    let none = || "-".to_owned();
    fields.push(("hub", page.hub.url().map_or_else(|| "not running".to_owned(), str::to_owned)));
    fields.push(("data folder", page.hub.data_dir().unwrap_or_else(none)));
    if let HubState::Up { health, status, .. } = &page.hub {
        fields.push(("health", health.clone()));
        fields.extend(hub_fields(status, out));
        fields.push(("agents", agents(page)));
        fields.push(("nodes", nodes(page)));
    }
    fields.push(("queued writes", queued(page, out)));
    if page.hub.is_up() {
        fields.push(("failed calls", failures(page)));
    }
    fields.push((
        "problems",
        match page.problems.len() {
            0 => "none".to_owned(),
            count => count.to_string(),
        },
    ));
    out.fields(&fields)?;
    print_lists(page, out)
}

fn print_lists(page: &StatusPage, out: &Output) -> anyhow::Result<()> {
    let seen = |at: Option<plexus_proto::Timestamp>| at.map_or_else(|| "never".to_owned(), |at| out.when(at));
    let agents = page.agents.iter().flatten();
    let agents = agents.map(|agent| {
        let connected = if agent.connected_here { "connected here" } else { "has a token" };
        vec![agent.name.clone(), connected.to_owned(), seen(agent.last_seen_at)]
    });
    print_list(out, ("agent", "Agents"), &["NAME", "ACCESS", "LAST SEEN"], agents.collect())?;
    let nodes = page.nodes.iter().flatten();
    let nodes =
        nodes.map(|node| vec![node.name.clone(), node.state.as_str().to_owned(), seen(node.last_seen_at)]);
    print_list(out, ("node", "Nodes"), &["NAME", "STATE", "LAST SEEN"], nodes.collect())?;
    let failures = page.failures.iter().flatten();
    let failures = failures.map(|call| {
        let reason = call.result["message"].as_str().unwrap_or(&call.outcome);
        vec![out.when(call.started_at), call.actor.clone(), call.tool.clone(), reason.to_owned()]
    });
    print_list(
        out,
        ("failure", "Recent failed calls"),
        &["STARTED", "ACTOR", "TOOL", "REASON"],
        failures.collect(),
    )?;
    print_problems(page, out)
}

/// Prints the problems: on a terminal as wrapped text, because a part of a fix is useless.
fn print_problems(page: &StatusPage, out: &Output) -> anyhow::Result<()> {
    if !out.terminal() {
        let rows = page.problems.iter().map(|problem| vec![problem.what.clone(), problem.fix.clone()]);
        return print_list(out, ("problem", "Problems"), &["PROBLEM", "FIX"], rows.collect());
    }
    if !page.problems.is_empty() {
        out.block("\nProblems\n")?;
    }
    page.problems.iter().try_for_each(|problem| {
        out.labelled("- ", &problem.what)?;
        out.labelled("  fix: ", &problem.fix)
    })
}

/// Prints a list: on a terminal under a heading, in a pipe with the name of the list at the beginning of each line.
fn print_list(
    out: &Output,
    (name, heading): (&str, &str),
    headers: &[&'static str],
    mut rows: Vec<Vec<String>>,
) -> anyhow::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    if out.terminal() {
        out.block(&format!("\n{heading}\n"))?;
    } else {
        rows.iter_mut().for_each(|row| row.insert(0, name.to_owned()));
    }
    out.table(headers, rows)
}

fn hub_fields(status: &Status, out: &Output) -> Vec<(&'static str, String)> {
    let chain = match (&status.audit.head, status.audit.intact_at_start) {
        (_, false) => "did NOT match its signed head when the hub started",
        (None, true) => "empty",
        (Some(_), true) => {
            "matched its signed head when the hub started; `plexus audit verify` checks all entries"
        }
    };
    let head = status.audit.head.as_ref();
    let head = head.map_or_else(|| "none yet".to_owned(), |head| format!("entry {} {}", head.n, head.hash));
    let uptime = i64::try_from(status.uptime_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
    vec![
        ("version", status.version.clone()),
        ("instance", status.instance_id.clone()),
        ("started", out.at(status.started_at)),
        ("uptime", out.duration(uptime)),
        ("database", database(status)),
        ("durability", status.durability.clone()),
        ("tools", tools(status.tools, status.broken_tools)),
        ("servers", servers(&status.upstreams)),
        ("mcp sessions", status.mcp_sessions.to_string()),
        ("running calls", status.calls_in_flight.to_string()),
        ("audit chain", chain.to_owned()),
        ("audit head", head),
    ]
}

/// The kind and location of the database. Older hubs do not report the location.
fn database(status: &Status) -> String {
    match status.database_location.as_str() {
        "" => status.database.clone(),
        location => format!("{}: {location}", status.database),
    }
}

/// Shown for a list that the token may not read.
const NOT_ALLOWED: &str = "not shown: the token may not read them";

fn agents(page: &StatusPage) -> String {
    let Some(agents) = &page.agents else { return NOT_ALLOWED.to_owned() };
    match agents.len() {
        0 => "none yet: `plexus connect` connects those on this machine".to_owned(),
        count => {
            let here = agents.iter().filter(|agent| agent.connected_here).count();
            format!("{count}, {here} of them connected on this machine")
        }
    }
}

fn nodes(page: &StatusPage) -> String {
    let Some(nodes) = &page.nodes else { return NOT_ALLOWED.to_owned() };
    let online = nodes.iter().filter(|node| node.state == NodeState::Online).count();
    let more = if nodes.len() < 2 { ": `plexus node invite` lets other machines join" } else { "" };
    format!("{online} of {} online{more}", nodes.len())
}

fn queued(page: &StatusPage, out: &Output) -> String {
    let Some(queued) = &page.outbox else { return "cannot be read".to_owned() };
    match (queued.waiting, queued.dead) {
        (0, 0) => "none on this machine".to_owned(),
        (waiting, dead) => {
            let since = queued.oldest_at.map(|at| format!(" (oldest from {})", out.at(at)));
            format!(
                "{waiting} waiting{}, dead letters: {dead}: see `plexus outbox list`",
                since.unwrap_or_default()
            )
        }
    }
}

fn failures(page: &StatusPage) -> String {
    match &page.failures {
        None => NOT_ALLOWED.to_owned(),
        Some(failures) if failures.is_empty() => "none recently".to_owned(),
        Some(_) => "the most recent are below; `plexus audit show` has the details".to_owned(),
    }
}

/// The number of tools, and of broken custom tools.
fn tools(count: usize, broken: usize) -> String {
    match broken {
        0 => count.to_string(),
        _ => format!("{count} ({broken} enabled but broken: see `plexus tools list --defined`)"),
    }
}

/// The MCP servers by state.
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
        return "none; `plexus upstream add` adds one".to_owned();
    }
    let others = [
        (starting, "starting"),
        (idle, "idle"),
        (disabled, "disabled"),
        (down, "down"),
        (failed, "failed"),
        (invalid, "invalid"),
        (needs_login, "waiting for a login"),
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let quarantine_note = match quarantined {
        0 => String::new(),
        count => format!(", {} in quarantine", upstream::tools(count)),
    };
    let needs_attention = down + failed + invalid + needs_login + quarantined > 0;
    let hint = if needs_attention { ": see `plexus upstream list`" } else { "" };
    format!("{ready} ready of {total}{others}{quarantine_note}{hint}")
}
