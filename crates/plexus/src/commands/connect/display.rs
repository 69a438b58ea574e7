//! Displays the agents' files: changes, problems and state.

use plexus_bridge::{AgentManager, BridgeError, Change};
use plexus_proto::api::{ExternalAgent, ExternalAgentFileState, ExternalAgentState};
use plexus_tools::redacted;
use serde_json::{Value, json};

use super::local_agents;
use crate::output::{Output, shorten};

/// Longest displayed line; some files are a single line.
const MAX_LINE: usize = 300;
const LOCAL_NODE: &str = "local";

pub(crate) fn with_version(name: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    }
}

/// Prints the change of one file.
pub(crate) fn print_change(out: &Output, change: &Change) -> anyhow::Result<()> {
    let path = change.path.display();
    out.line(&match (&change.before, &change.after) {
        (None, Some(_)) => format!("  {path} (new)"),
        (Some(_), None) => format!("  {path} (removed)"),
        _ if !change.is_needed() => format!("  {path} (up to date)"),
        _ => format!("  {path}"),
    })?;
    lines(change).iter().try_for_each(|line| out.diff_line(line))
}

/// The added and removed text. The text around it, even on the same line, is not displayed, because it may contain credentials.
fn lines(change: &Change) -> Vec<String> {
    if !change.servers.is_empty() {
        return servers(change);
    }
    let (before, after) = match (&change.before, &change.after) {
        (Some(before), Some(after)) => (before.as_str(), after.as_str()),
        (before, after) => {
            let all = |sign: &str, text: &Option<String>| -> Vec<String> {
                let lines = text.iter().flat_map(|text| text.lines());
                lines.map(|line| format!("{sign} {}", displayed_line(line))).collect()
            };
            return [all("-", before), all("+", after)].concat();
        }
    };
    if before == after {
        return Vec::new();
    }
    let same = |(one, other): &((usize, char), char)| one.1 == *other;
    let start: usize =
        before.char_indices().zip(after.chars()).take_while(same).map(|((_, c), _)| c.len_utf8()).sum();
    let (old, new) = (&before[start..], &after[start..]);
    let same_at_end = old.chars().rev().zip(new.chars().rev()).take_while(|(one, other)| one == other);
    let end: usize = same_at_end.map(|(c, _)| c.len_utf8()).sum();
    let rest = &old[old.len() - end..];
    let mut lines = vec![format!("@ line {}", 1 + before[..start].matches('\n').count())];
    for (sign, part) in [("-", &old[..old.len() - end]), ("+", &new[..new.len() - end])] {
        let (begins, ends) = (
            start == 0 || before[..start].ends_with('\n'),
            rest.is_empty() || rest.starts_with(['\r', '\n']),
        );
        let count = part.lines().count();
        for (at, line) in part.lines().enumerate() {
            let lead = if at == 0 && !begins { "…" } else { "" };
            let tail = if at + 1 == count && !ends && !part.ends_with('\n') { "…" } else { "" };
            // Only a separator before the next line.
            if at == 0 && !begins && matches!(line.trim(), "" | ",") {
                continue;
            }
            lines.push(format!("{sign} {lead}{}{tail}", displayed_line(line)));
        }
    }
    lines
}

/// The names of moved servers. Their content is not displayed, because it may contain credentials.
fn servers(change: &Change) -> Vec<String> {
    if !change.is_needed() {
        return Vec::new();
    }
    let (own, others, action) = match change.inserts_entry() {
        true => ("+", "-", "moves behind the hub"),
        false => ("-", "+", "moves back"),
    };
    let names = change.servers.iter().map(|name| format!("{others} {} ({action})", displayed_line(name)));
    std::iter::once(format!("{own} {}", plexus_bridge::SERVER)).chain(names).collect()
}

fn displayed_line(line: &str) -> String {
    let line = line.trim_end_matches(['\r', '\n']);
    shorten(&redacted(line).unwrap_or_else(|| line.to_owned()), MAX_LINE)
}

pub(crate) fn change_json(change: &Change) -> Value {
    json!({
        "path": change.path,
        "exists": change.before.is_some(),
        "removed": change.after.is_none(),
        "changes": change.is_needed(),
        "diff": lines(change),
    })
}

pub(crate) fn print_problem(out: &Output, error: &BridgeError) -> anyhow::Result<()> {
    let kind = if error.is_conflict() { "conflict" } else { "refused" };
    out.diff_line(&format!("! {kind}: {error}"))?;
    out.diff_line(&format!("  {}", error.fix()))
}

pub(crate) fn problem_json(error: &BridgeError) -> Value {
    json!({ "conflict": error.is_conflict(), "message": error.to_string(), "fix": error.fix() })
}

/// Prints the agents on this machine and the state of their files.
pub(crate) fn print_status(out: &Output, keeper: &AgentManager) -> anyhow::Result<()> {
    let agents = keeper.list(LOCAL_NODE).map_err(|error| local_agents::failure(&error))?;
    if out.json() {
        return out.json_line(&json!({ "items": agents }).to_string());
    }
    if agents.is_empty() {
        out.note("No agent was found on this machine, and none is connected.");
        return Ok(());
    }
    print_agents(out, &agents)?;
    if agents.iter().all(|agent| agent.state == ExternalAgentState::Found) {
        out.note("No agent is connected. To connect one: plexus connect");
    }
    Ok(())
}

/// Prints agents as a table, and below it the problems of their files.
pub(crate) fn print_agents(out: &Output, agents: &[ExternalAgent]) -> anyhow::Result<()> {
    let rows = agents.iter().map(|agent| {
        let files = agent.files.iter().filter(|file| file.state == ExternalAgentFileState::Current).count();
        vec![
            agent.id.clone(),
            agent.state.as_str().to_owned(),
            agent.version.clone().unwrap_or_else(|| "-".to_owned()),
            agent.tested.clone().unwrap_or_else(|| "untested".to_owned()),
            match agent.files.len() {
                0 => "-".to_owned(),
                all => format!("{files} of {all}"),
            },
            agent.last_sync_at.map_or_else(|| "-".to_owned(), |at| out.when(at)),
        ]
    });
    out.table(&["ID", "STATE", "VERSION", "TESTED WITH", "FILES CURRENT", "LAST SYNC"], rows.collect())?;
    for agent in agents {
        for file in &agent.files {
            if let Some(problem) = &file.problem {
                out.note(&format!("{}: {} {}: {problem}", agent.id, file.path, file.state.as_str()));
            }
        }
    }
    Ok(())
}
