//! `plexus upstream approve`: what has changed of a server's tools, and whether it may be listed.

mod asking;
mod named;

use clap::Args;
use plexus_proto::api::{
    ApproveUpstreamParams, Page, PendingTool, ToolApproval, Upstream, UpstreamApproval, UpstreamState,
};

use self::named::Named;
use super::add::tools;
use crate::client::{Answer, Hub};
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line};
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct ApproveArgs {
    /// Name of the server
    pub(super) name: String,
    /// Only these tools, by the server's own names or by ours; `(instructions)` for what the server says of itself
    #[arg(value_name = "TOOL", conflicts_with = "all")]
    tools: Vec<String>,
    /// All that waits
    #[arg(long)]
    all: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
}

pub(super) async fn run(out: &Output, hub: &Hub, args: &ApproveArgs) -> anyhow::Result<()> {
    let ApproveArgs { name, tools: wanted, all, yes } = args;
    let shown = shell::name(&one_line(name));
    if *yes && wanted.is_empty() && !all {
        return Err(Failure::new(Exit::Usage, "name the tools to approve, or pass --all").into());
    }
    let server: Upstream = hub.get(&["upstreams", name], &[]).await?.decode()?;
    let answer = hub.get(&["upstreams", name, "pending"], &[]).await?;
    let pending: Vec<PendingTool> = answer.decode::<Page<PendingTool>>()?.items;
    if pending.is_empty() {
        is_there(&server, &shown)?;
    }
    let all_waiting: Vec<String> = pending.iter().map(|tool| tool.name.clone()).collect();
    let Named { waiting, approved } = named::of(&server, pending, wanted)?;
    if out.json() && !yes {
        return out.json_line(&serde_json::to_string(&Page { items: waiting, next: None })?);
    }
    if !out.json() {
        approved.iter().for_each(|tool| out.note(&format!("{tool} is approved already.")));
    }
    if waiting.is_empty() {
        let nothing = UpstreamApproval { name: name.clone(), approved: vec![], pending: all_waiting };
        return match out.json() {
            true => out.json_line(&serde_json::to_string(&nothing)?),
            false if wanted.is_empty() => out.line(&format!("Nothing of {shown} waits to be approved.")),
            false => Ok(()),
        };
    }
    if !yes && out.can_prompt() {
        return asking::each(out, hub, name, &waiting, all_waiting).await;
    }
    if !out.json() {
        waiting.iter().try_for_each(|tool| asking::show(out, tool))?;
    }
    if !yes {
        return Err(nobody_to_ask(&shown, wanted, waiting.len()));
    }
    let answer = approve(hub, name, &waiting).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let UpstreamApproval { approved, pending, .. } = answer.decode()?;
    tell(out, &approved, &pending)
}

/// Approves exactly these definitions, all or none.
async fn approve(hub: &Hub, server: &str, tools: &[PendingTool]) -> anyhow::Result<Answer> {
    let approval = |tool: &PendingTool| ToolApproval { name: tool.name.clone(), hash: tool.hash.clone() };
    let params = ApproveUpstreamParams { tools: tools.iter().map(approval).collect() };
    hub.post(&["upstreams", server, "approve"], &params, &[]).await
}

/// What came of it.
fn tell(out: &Output, approved: &[String], pending: &[String]) -> anyhow::Result<()> {
    match approved.is_empty() {
        true => out.line("Nothing was approved.")?,
        false => out.line(&format!("Approved: {}.", approved.join(", ")))?,
    }
    if !pending.is_empty() {
        out.note(&format!("Still waiting: {}.", pending.join(", ")));
    }
    Ok(())
}

fn nobody_to_ask(shown: &str, wanted: &[String], count: usize) -> anyhow::Error {
    let message = format!("{} not approved: there is nobody to ask", tools(count));
    let (which, it) = match wanted {
        [] => ("--all".to_owned(), "all of it"),
        names => (names.iter().map(|name| shell::name(&one_line(name))).collect::<Vec<_>>().join(" "), "it"),
    };
    let hint = format!("look at it; `plexus upstream approve {shown} {which} --yes` approves {it}");
    Failure::new(Exit::Failed, message).hint(hint).into()
}

/// Nothing is known to wait of a server that is not there, which does not mean that nothing will.
fn is_there(server: &Upstream, shown: &str) -> anyhow::Result<()> {
    let (how, hint) = match server.state {
        UpstreamState::Ready | UpstreamState::Idle => return Ok(()),
        UpstreamState::Disabled => ("off", format!("`plexus upstream enable {shown}` switches it on")),
        UpstreamState::NeedsLogin => ("locked", format!("`plexus upstream login {shown}` logs in to it")),
        UpstreamState::Starting => ("being started", "try again in a moment".to_owned()),
        UpstreamState::Invalid | UpstreamState::Down | UpstreamState::Failed => {
            ("not there", format!("`plexus upstream show {shown}` says why"))
        }
    };
    let message = format!("{shown} is {how}: what waits to be approved of it is seen when it is up");
    Err(Failure::new(Exit::Failed, message).hint(hint).into())
}
