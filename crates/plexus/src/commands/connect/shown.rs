//! How files of agents are shown: what would change, what is wrong, how they are.

use plexus_bridge::{BridgeError, Change, Keeper};
use plexus_proto::api::{ExternalAgent, ExternalAgentFileState, ExternalAgentState};
use plexus_tools::redacted;
use serde_json::{Value, json};
use similar::TextDiff;

use super::desk;
use crate::output::{Output, shorten};

/// Lines around a change.
const AROUND: usize = 2;
/// Longest line that is shown: some files are one.
const LONGEST: usize = 300;
const HERE: &str = "local";

pub(crate) fn with_version(name: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    }
}

/// One file as it is and as it would be. What looks like a credential in the lines around a change is not shown.
pub(crate) fn change(out: &Output, change: &Change) -> anyhow::Result<()> {
    let path = change.path.display();
    out.line(&match (&change.before, &change.after) {
        (None, Some(_)) => format!("  {path} (new)"),
        (Some(_), None) => format!("  {path} (removed)"),
        _ if !change.is_needed() => format!("  {path} (as it should be)"),
        _ => format!("  {path}"),
    })?;
    lines(change).iter().try_for_each(|line| out.compared(line))
}

fn lines(change: &Change) -> Vec<String> {
    let text = |side: &Option<String>| side.clone().unwrap_or_default();
    let (before, after) = (text(&change.before), text(&change.after));
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let mut lines = Vec::new();
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            lines.push("…".to_owned());
        }
        for part in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let line = part.value().trim_end_matches(['\r', '\n']);
            let line = redacted(line).unwrap_or_else(|| line.to_owned());
            lines.push(format!("{} {}", part.tag(), shorten(&line, LONGEST)));
        }
    }
    lines
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

pub(crate) fn problem(out: &Output, error: &BridgeError) -> anyhow::Result<()> {
    let what = if error.is_conflict() { "conflict" } else { "refused" };
    out.compared(&format!("! {what}: {error}"))?;
    out.compared(&format!("  {}", error.fix()))
}

pub(crate) fn problem_json(error: &BridgeError) -> Value {
    json!({ "conflict": error.is_conflict(), "message": error.to_string(), "fix": error.fix() })
}

/// What is connected on this machine, and how its files are.
pub(crate) fn status(out: &Output, keeper: &Keeper) -> anyhow::Result<()> {
    let agents = keeper.list(HERE).map_err(|error| desk::refused(&error))?;
    if out.json() {
        return out.json_line(&json!({ "items": agents }).to_string());
    }
    if agents.is_empty() {
        out.note("No agent was found on this machine, and none is connected.");
        return Ok(());
    }
    list(out, &agents)?;
    if agents.iter().all(|agent| agent.state == ExternalAgentState::Found) {
        out.note("None is connected: plexus connect");
    }
    Ok(())
}

/// Agents as a table, and what is wrong with their files below it.
pub(crate) fn list(out: &Output, agents: &[ExternalAgent]) -> anyhow::Result<()> {
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
    out.table(&["ID", "STATE", "VERSION", "TESTED WITH", "FILES AS LEFT", "LAST SYNC"], rows.collect())?;
    for agent in agents {
        for file in &agent.files {
            if let Some(problem) = &file.problem {
                out.note(&format!("{}: {} {}: {problem}", agent.id, file.path, file.state.as_str()));
            }
        }
    }
    Ok(())
}
