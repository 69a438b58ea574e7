//! How files of agents are shown: what would change, what is wrong, how they are.

use plexus_bridge::{BridgeError, Change, Keeper};
use plexus_proto::api::{ExternalAgent, ExternalAgentFileState, ExternalAgentState};
use plexus_tools::redacted;
use serde_json::{Value, json};
use similar::{DiffTag, TextDiff};

use super::desk;
use crate::output::{Output, shorten};

/// Longest line that is shown: some files are one.
const LONGEST: usize = 300;
const HERE: &str = "local";

pub(crate) fn with_version(name: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    }
}

/// One file as it is and as it would be.
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

/// The lines that come and go, and of those that are only added to, what is added: what stands around them is somebody else's, and
/// may be a credential.
fn lines(change: &Change) -> Vec<String> {
    let text = |side: &Option<String>| side.clone().unwrap_or_default();
    let (before, after) = (text(&change.before), text(&change.after));
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let mut lines = Vec::new();
    for op in diff.ops().iter().filter(|op| op.tag() != DiffTag::Equal) {
        let mut old: Vec<&str> =
            before.split_inclusive('\n').skip(op.old_range().start).take(op.old_range().len()).collect();
        let mut new: Vec<&str> =
            after.split_inclusive('\n').skip(op.new_range().start).take(op.new_range().len()).collect();
        if change.before.is_some() && change.after.is_some() {
            lines.push(format!("@ line {}", op.new_range().start + 1));
        }
        // A line of somebody else's that gets a comma, or that all of a file stands on.
        if let (Some(was), Some(is)) = (old.first().copied(), new.first().copied()) {
            if let Some(added) = added_to(was, is) {
                old.remove(0);
                new.remove(0);
                lines.extend((added != ",").then(|| format!("+ …{}…", shown_line(added))));
            } else if let Some(taken) = added_to(is, was) {
                old.remove(0);
                new.remove(0);
                lines.extend((taken != ",").then(|| format!("- …{}…", shown_line(taken))));
            }
        }
        lines.extend(old.iter().map(|line| format!("- {}", shown_line(line))));
        lines.extend(new.iter().map(|line| format!("+ {}", shown_line(line))));
    }
    lines
}

/// What was put into a line, if nothing else of it was changed.
fn added_to<'l>(was: &str, is: &'l str) -> Option<&'l str> {
    let (was, is) = (was.trim_end_matches(['\r', '\n']), is.trim_end_matches(['\r', '\n']));
    let begins = was.char_indices().zip(is.chars()).find(|((_, one), other)| one != other);
    let start = begins.map_or(was.len().min(is.len()), |((at, _), _)| at);
    let rest = &was[start..];
    let is_added = is.len() > was.len() && is[start..].ends_with(rest) && !was.trim().is_empty();
    is_added.then(|| &is[start..is.len() - rest.len()])
}

fn shown_line(line: &str) -> String {
    let line = line.trim_end_matches(['\r', '\n']);
    shorten(&redacted(line).unwrap_or_else(|| line.to_owned()), LONGEST)
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
