//! Selects the tools in quarantine that the command line names.

use plexus_kit::config::nearest;
use plexus_proto::api::{INSTRUCTIONS, PendingTool, Upstream};
use plexus_proto::tool_name;

use crate::failure::{Exit, Failure};
use crate::output::one_line;
use crate::shell;

/// Maximum number of pending names in a hint.
const MAX_NAMES: usize = 10;

/// The tools that the command line selects.
#[derive(Debug)]
pub(super) struct Selection {
    /// Tools in quarantine, in the order of the hub.
    pub(super) pending: Vec<PendingTool>,
    /// Names of tools that are already approved.
    pub(super) approved: Vec<String>,
}

/// Selects the tools with these names; without any names, the whole quarantine.
pub(super) fn select(
    server: &Upstream,
    pending: Vec<PendingTool>,
    wanted: &[String],
) -> anyhow::Result<Selection> {
    let canonical = |tool: &str| tool_name::canonical(&server.slug, tool);
    let has_name = |tool: &PendingTool, name: &String| tool.name == *name || canonical(&tool.name) == *name;
    let is_listed = |name: &String| server.tools.contains(name) || server.tools.contains(&canonical(name));
    let mut approved = Vec::new();
    for name in wanted.iter().filter(|name| !pending.iter().any(|tool| has_name(tool, name))) {
        match name == INSTRUCTIONS || is_listed(name) {
            true => approved.push(name.clone()),
            false => return Err(unknown(server, &pending, name)),
        }
    }
    let is_wanted = |tool: &PendingTool| wanted.is_empty() || wanted.iter().any(|name| has_name(tool, name));
    Ok(Selection { pending: pending.into_iter().filter(is_wanted).collect(), approved })
}

/// The error for a name that the server does not have.
fn unknown(server: &Upstream, pending: &[PendingTool], name: &str) -> anyhow::Error {
    let (shown, name) = (shell::name(&one_line(&server.name)), one_line(name));
    if let Some((other, _)) = tool_name::split(&name).filter(|(slug, _)| *slug != server.slug) {
        let message = format!("{name} is not a tool of {shown}, but of {other}");
        let hint = format!("plexus upstream approve {} {}", shell::name(other), shell::name(&name));
        return Failure::new(Exit::Failed, message).hint(hint).into();
    }
    let pending: Vec<&str> = pending.iter().map(|tool| tool.name.as_str()).collect();
    let listed =
        server.tools.iter().map(|tool| tool_name::split(tool).map_or(tool.as_str(), |(_, bare)| bare));
    let bare = tool_name::split(&name).map_or(name.as_str(), |(_, bare)| bare);
    let hint = match nearest(bare, listed.chain(pending.iter().copied())) {
        Some(near) => format!("did you mean {}?", one_line(near)),
        None if pending.is_empty() => format!("{shown} has nothing in quarantine"),
        None => {
            let more = pending.len().saturating_sub(MAX_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("in quarantine: {}{more}", pending[..pending.len().min(MAX_NAMES)].join(", "))
        }
    };
    Failure::new(Exit::Failed, format!("{shown} has no tool {name}")).hint(hint).into()
}
