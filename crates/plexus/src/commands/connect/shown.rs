//! How files of agents are shown: what would change, what is wrong, how they are.

use plexus_bridge::{BridgeError, Change, Keeper};
use plexus_proto::api::{ExternalAgent, ExternalAgentFileState, ExternalAgentState};
use plexus_tools::redacted;
use serde_json::{Value, json};

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

/// What comes and what goes. What stands around it is somebody else's and may be a credential: it is not shown, also where it is on
/// the same line.
fn lines(change: &Change) -> Vec<String> {
    if !change.servers.is_empty() {
        return servers(change);
    }
    let (before, after) = match (&change.before, &change.after) {
        (Some(before), Some(after)) => (before.as_str(), after.as_str()),
        (before, after) => {
            let all = |sign: &str, text: &Option<String>| -> Vec<String> {
                let lines = text.iter().flat_map(|text| text.lines());
                lines.map(|line| format!("{sign} {}", shown_line(line))).collect()
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
            // What only makes room for the next line.
            if at == 0 && !begins && matches!(line.trim(), "" | ",") {
                continue;
            }
            lines.push(format!("{sign} {lead}{}{tail}", shown_line(line)));
        }
    }
    lines
}

/// Where servers go or come back, what they hold may be a credential: their names are shown and nothing of the text.
fn servers(change: &Change) -> Vec<String> {
    if !change.is_needed() {
        return Vec::new();
    }
    let (own, others, what) = match change.enters() {
        true => ("+", "-", "moves behind the hub"),
        false => ("-", "+", "comes back"),
    };
    let names = change.servers.iter().map(|name| format!("{others} {} ({what})", shown_line(name)));
    std::iter::once(format!("{own} {}", plexus_bridge::SERVER)).chain(names).collect()
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
