//! The page as a person reads it: one block of fields, then a list for each subject that has something in it.
//!
//! In a pipe each line of a list begins with its subject, so that one of them can be picked out.

use plexus_proto::api::{NodeState, Status, UpstreamCounts};

use super::page::{HubPart, Page};
use crate::commands::upstream;
use crate::output::{Output, one_line, shorten};

/// Of the reason of a failed call.
const REASON: usize = 80;

pub(super) fn print(page: &Page, out: &Output) -> anyhow::Result<()> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    let none = || "-".to_owned();
    fields.push(("hub", page.hub.url().map_or_else(|| "not running".to_owned(), str::to_owned)));
    fields.push(("data folder", page.hub.data_dir().unwrap_or_else(none)));
    if let HubPart::Answers { health, status, .. } = &page.hub {
        fields.push(("health", health.clone()));
        fields.extend(of_hub(status, out));
        fields.push(("agents", agents(page)));
        fields.push(("nodes", nodes(page)));
    }
    fields.push(("queued writes", queued(page, out)));
    if page.hub.answers() {
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
    lists(page, out)
}

fn lists(page: &Page, out: &Output) -> anyhow::Result<()> {
    let seen = |at: Option<plexus_proto::Timestamp>| at.map_or_else(|| "never".to_owned(), |at| out.when(at));
    let agents = page.agents.iter().flatten();
    let agents = agents.map(|agent| {
        let connected = if agent.connected_here { "connected here" } else { "by token" };
        vec![agent.name.clone(), connected.to_owned(), seen(agent.last_seen_at)]
    });
    section(out, ("agent", "Agents"), &["NAME", "HOW", "LAST SEEN"], agents.collect())?;
    let nodes = page.nodes.iter().flatten();
    let nodes =
        nodes.map(|node| vec![node.name.clone(), state(node.state).to_owned(), seen(node.last_seen_at)]);
    section(out, ("node", "Nodes"), &["NAME", "STATE", "LAST SEEN"], nodes.collect())?;
    let failures = page.failures.iter().flatten();
    let failures = failures.map(|call| {
        let why = call.result["message"].as_str().unwrap_or(&call.outcome);
        let why = shorten(&one_line(why), REASON);
        vec![out.when(call.started_at), call.actor.clone(), call.tool.clone(), why]
    });
    section(out, ("failure", "Last failed calls"), &["WHEN", "WHO", "TOOL", "WHY"], failures.collect())?;
    let problems = page.problems.iter().map(|problem| vec![problem.what.clone(), problem.fix.clone()]);
    section(out, ("problem", "Problems"), &["WHAT", "WHAT TO DO"], problems.collect())
}

/// A list under a heading on a terminal; in a pipe, lines that begin with their subject.
fn section(
    out: &Output,
    (subject, heading): (&str, &str),
    headers: &[&'static str],
    mut rows: Vec<Vec<String>>,
) -> anyhow::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    if out.terminal() {
        out.block(&format!("\n{heading}\n"))?;
    } else {
        rows.iter_mut().for_each(|row| row.insert(0, subject.to_owned()));
    }
    out.table(headers, rows)
}

fn of_hub(status: &Status, out: &Output) -> Vec<(&'static str, String)> {
    let chain = match (&status.audit.head, status.audit.intact_at_start) {
        (_, false) => "BROKEN when the hub started",
        (None, true) => "nothing is on record yet",
        (Some(_), true) => "matched its signed head at the start; `plexus audit verify` checks all of it",
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
        ("calls in flight", status.calls_in_flight.to_string()),
        ("audit chain", chain.to_owned()),
        ("audit head", head),
    ]
}

/// A hub of an older version does not tell where it is.
fn database(status: &Status) -> String {
    match status.database_location.as_str() {
        "" => status.database.clone(),
        location => format!("{}: {location}", status.database),
    }
}

/// Said of a list that the token of this command may not read.
const NOT_ALLOWED: &str = "not shown: the token may not read them";

fn agents(page: &Page) -> String {
    let Some(agents) = &page.agents else { return NOT_ALLOWED.to_owned() };
    match agents.len() {
        0 => "none yet: `plexus connect` connects those of this machine".to_owned(),
        count => {
            let here = agents.iter().filter(|agent| agent.connected_here).count();
            format!("{count}, of which {here} connected on this machine")
        }
    }
}

fn nodes(page: &Page) -> String {
    let Some(nodes) = &page.nodes else { return NOT_ALLOWED.to_owned() };
    let online = nodes.iter().filter(|node| node.state == NodeState::Online).count();
    let more = if nodes.len() < 2 { ": `plexus node invite` lets other machines join" } else { "" };
    format!("{online} of {} online{more}", nodes.len())
}

fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Online => "online",
        NodeState::Unwell => "unwell",
        NodeState::Offline => "offline",
        NodeState::New => "new",
    }
}

fn queued(page: &Page, out: &Output) -> String {
    let Some(queued) = &page.outbox else { return "cannot be read".to_owned() };
    match (queued.waiting, queued.dead) {
        (0, 0) => "none on this machine".to_owned(),
        (waiting, dead) => {
            let since = queued.oldest_at.map(|at| format!(", the oldest of {}", out.at(at)));
            format!(
                "{waiting} waiting{}, dead letters: {dead}: see `plexus outbox list`",
                since.unwrap_or_default()
            )
        }
    }
}

fn failures(page: &Page) -> String {
    match &page.failures {
        None => NOT_ALLOWED.to_owned(),
        Some(failures) if failures.is_empty() => "none lately".to_owned(),
        Some(_) => "the last of them are below; `plexus audit show` has their details".to_owned(),
    }
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
        count => format!(", {} in quarantine", upstream::tools(count)),
    };
    let look = down + failed + invalid + needs_login + quarantined > 0;
    let look = if look { ": see `plexus upstream list`" } else { "" };
    format!("{ready} ready of {total}{others}{held}{look}")
}
