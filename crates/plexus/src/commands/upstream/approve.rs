//! `plexus upstream approve`: shows a server's tools in quarantine, and approves them.

mod prompt;
mod selection;

use clap::Args;
use plexus_proto::api::{
    ApproveUpstreamParams, Page, PendingTool, ToolApproval, Upstream, UpstreamApproval, UpstreamState,
};

use self::selection::Selection;
use super::add::tools;
use crate::client::{Answer, Hub};
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line};
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct ApproveArgs {
    /// Name of the server
    pub(super) name: String,
    /// Only these tools, by the server's names or the hub's; `(instructions)` for the server's instructions
    #[arg(value_name = "TOOL", conflicts_with = "all")]
    tools: Vec<String>,
    /// All tools in quarantine
    #[arg(long)]
    all: bool,
    /// Approve without asking
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
        require_up(&server, &shown)?;
    }
    let all_pending: Vec<String> = pending.iter().map(|tool| tool.name.clone()).collect();
    let Selection { pending: selected, approved } = selection::select(&server, pending, wanted)?;
    if out.json() && !yes {
        return out.json_line(&serde_json::to_string(&Page { items: selected, next: None })?);
    }
    if !out.json() {
        approved.iter().for_each(|tool| out.note(&format!("{tool} is already approved.")));
    }
    if selected.is_empty() {
        let nothing = UpstreamApproval { name: name.clone(), approved: vec![], pending: all_pending };
        return match out.json() {
            true => out.json_line(&serde_json::to_string(&nothing)?),
            false if wanted.is_empty() => out.line(&format!("{shown} has nothing in quarantine.")),
            false => Ok(()),
        };
    }
    if !yes && out.can_prompt() {
        return prompt::approve_each(out, hub, name, &selected, all_pending).await;
    }
    if !out.json() {
        selected.iter().try_for_each(|tool| prompt::show(out, tool))?;
    }
    if !yes {
        return Err(no_terminal(&shown, wanted, selected.len()));
    }
    let answer = approve(hub, name, &selected).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let UpstreamApproval { approved, pending, .. } = answer.decode()?;
    print_result(out, &approved, &pending)
}

/// Approves exactly these definitions, either all of them or none.
async fn approve(hub: &Hub, server: &str, tools: &[PendingTool]) -> anyhow::Result<Answer> {
    let approval = |tool: &PendingTool| ToolApproval { name: tool.name.clone(), hash: tool.hash.clone() };
    let params = ApproveUpstreamParams { tools: tools.iter().map(approval).collect() };
    hub.post(&["upstreams", server, "approve"], &params, &[]).await
}

fn print_result(out: &Output, approved: &[String], pending: &[String]) -> anyhow::Result<()> {
    match approved.is_empty() {
        true => out.line("Nothing was approved.")?,
        false => out.line(&format!("Approved: {}.", approved.join(", ")))?,
    }
    if !pending.is_empty() {
        out.note(&format!("Still in quarantine: {}.", pending.join(", ")));
    }
    Ok(())
}

fn no_terminal(shown: &str, wanted: &[String], count: usize) -> anyhow::Error {
    let message = format!("{} not approved: there is no terminal to ask on", tools(count));
    let object = if count == 1 { "it" } else { "them" };
    let selection = match wanted {
        [] => "--all".to_owned(),
        names => names.iter().map(|name| shell::name(&one_line(name))).collect::<Vec<_>>().join(" "),
    };
    let hint =
        format!("review {object}; `plexus upstream approve {shown} {selection} --yes` approves {object}");
    Failure::new(Exit::Failed, message).hint(hint).into()
}

/// Fails if the server is not up. Its quarantine is then unknown, not empty.
fn require_up(server: &Upstream, shown: &str) -> anyhow::Result<()> {
    let (state, hint) = match server.state {
        UpstreamState::Ready | UpstreamState::Idle => return Ok(()),
        UpstreamState::Disabled => ("is disabled", format!("`plexus upstream enable {shown}` enables it")),
        UpstreamState::NeedsLogin => {
            ("needs a login", format!("`plexus upstream login {shown}` logs in to it"))
        }
        UpstreamState::Starting => ("is starting", "try again in a moment".to_owned()),
        UpstreamState::Invalid | UpstreamState::Down | UpstreamState::Failed => {
            ("is not up", format!("`plexus upstream show {shown}` shows why"))
        }
    };
    let message = format!("{shown} {state}: its quarantine is unknown until it is up");
    Err(Failure::new(Exit::Failed, message).hint(hint).into())
}
