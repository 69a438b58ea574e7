//! Which of what waits is meant by the names on the command line.

use plexus_kit::config::nearest;
use plexus_proto::api::{INSTRUCTIONS, PendingTool, Upstream};
use plexus_proto::tool_name;

use crate::failure::{Exit, Failure};
use crate::output::one_line;
use crate::shell;

/// Names that are told where none was meant.
const TOLD: usize = 10;

#[derive(Debug)]
pub(super) struct Named {
    /// What waits, in the order in which it does.
    pub(super) waiting: Vec<PendingTool>,
    /// Names of what need not wait.
    pub(super) approved: Vec<String>,
}

/// What of a server is meant by these names; without any, all that waits.
pub(super) fn of(server: &Upstream, pending: Vec<PendingTool>, wanted: &[String]) -> anyhow::Result<Named> {
    let ours = |tool: &str| tool_name::canonical(&server.slug, tool);
    let is = |tool: &PendingTool, name: &String| tool.name == *name || ours(&tool.name) == *name;
    let is_listed = |name: &String| server.tools.contains(name) || server.tools.contains(&ours(name));
    let mut approved = Vec::new();
    for name in wanted.iter().filter(|name| !pending.iter().any(|tool| is(tool, name))) {
        match name == INSTRUCTIONS || is_listed(name) {
            true => approved.push(name.clone()),
            false => return Err(unknown(server, &pending, name)),
        }
    }
    let is_wanted = |tool: &PendingTool| wanted.is_empty() || wanted.iter().any(|name| is(tool, name));
    Ok(Named { waiting: pending.into_iter().filter(is_wanted).collect(), approved })
}

/// A name that stands for nothing of the server.
fn unknown(server: &Upstream, pending: &[PendingTool], name: &str) -> anyhow::Error {
    let (shown, name) = (shell::name(&one_line(&server.name)), one_line(name));
    if let Some((other, _)) = tool_name::split(&name).filter(|(slug, _)| *slug != server.slug) {
        let message = format!("{name} is not a tool of {shown}, but of {other}");
        let hint = format!("plexus upstream approve {} {}", shell::name(other), shell::name(&name));
        return Failure::new(Exit::Failed, message).hint(hint).into();
    }
    let waiting: Vec<&str> = pending.iter().map(|tool| tool.name.as_str()).collect();
    let listed =
        server.tools.iter().map(|tool| tool_name::split(tool).map_or(tool.as_str(), |(_, bare)| bare));
    let bare = tool_name::split(&name).map_or(name.as_str(), |(_, bare)| bare);
    let hint = match nearest(bare, listed.chain(waiting.iter().copied())) {
        Some(near) => format!("did you mean {}?", one_line(near)),
        None if waiting.is_empty() => format!("nothing of {shown} waits to be approved"),
        None => {
            let more = waiting.len().saturating_sub(TOLD);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("these wait: {}{more}", waiting[..waiting.len().min(TOLD)].join(", "))
        }
    };
    Failure::new(Exit::Failed, format!("{shown} has no tool {name}")).hint(hint).into()
}
