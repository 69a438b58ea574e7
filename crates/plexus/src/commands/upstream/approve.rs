//! `plexus upstream approve`: what has changed of a server's tools, and whether it may be listed.

use clap::Args;
use plexus_proto::api::{
    ApproveUpstreamParams, Page, PendingTool, QuarantineReason, ToolApproval, UpstreamApproval,
};
use plexus_proto::tool_name;

use super::add::tools;
use crate::client::Hub;
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
    let answer = hub.get(&["upstreams", name, "pending"], &[]).await?;
    if out.json() && !yes {
        return out.json_line(answer.raw().get());
    }
    let pending: Vec<PendingTool> = answer.decode::<Page<PendingTool>>()?.items;
    let chosen = chosen(name, pending, wanted)?;
    if !out.json() {
        for tool in &chosen {
            show(out, tool)?;
        }
    }
    if chosen.is_empty() {
        return match out.json() {
            true => out.json_line(&serde_json::to_string(&UpstreamApproval {
                name: name.clone(),
                approved: vec![],
                pending: vec![],
            })?),
            false => out.line(&format!("Nothing of {shown} waits to be approved.")),
        };
    }
    let approved = match yes {
        true => chosen,
        false if out.can_ask() => asked(out, chosen)?,
        false => {
            let message = format!("{} not approved: there is nobody to ask", tools(chosen.len()));
            let hint = format!(
                "look at what has changed; `plexus upstream approve {shown} --all --yes` approves it"
            );
            return Err(Failure::new(Exit::Failed, message).hint(hint).into());
        }
    };
    if approved.is_empty() {
        return out.line("Nothing was approved.");
    }
    let approvals = approved.into_iter().map(|tool| ToolApproval { name: tool.name, hash: tool.hash });
    let params = ApproveUpstreamParams { tools: approvals.collect() };
    let answer = hub.post(&["upstreams", name, "approve"], &params, &[]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let approval: UpstreamApproval = answer.decode()?;
    out.line(&format!("Approved: {}.", approval.approved.join(", ")))?;
    if !approval.pending.is_empty() {
        out.note(&format!("Still waiting: {}.", approval.pending.join(", ")));
    }
    Ok(())
}

/// Those of these names, or all.
fn chosen(server: &str, pending: Vec<PendingTool>, wanted: &[String]) -> anyhow::Result<Vec<PendingTool>> {
    let slug = tool_name::slug(server).unwrap_or_default();
    let is = |tool: &PendingTool, name: &String| {
        tool.name == *name || tool_name::canonical(&slug, &tool.name) == *name
    };
    if let Some(missing) = wanted.iter().find(|name| !pending.iter().any(|tool| is(tool, name))) {
        let names: Vec<&str> = pending.iter().map(|tool| tool.name.as_str()).collect();
        let hint = match names.is_empty() {
            true => "nothing of this server does".to_owned(),
            false => format!("these do: {}", names.join(", ")),
        };
        let message = format!("{} does not wait to be approved", one_line(missing));
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let is_wanted = |tool: &PendingTool| wanted.is_empty() || wanted.iter().any(|name| is(tool, name));
    Ok(pending.into_iter().filter(is_wanted).collect())
}

/// A tool with all that speaks for or against it.
fn show(out: &Output, tool: &PendingTool) -> anyhow::Result<()> {
    let why = match (&tool.approved, tool.reason) {
        (Some(before), _) => {
            format!(
                "has changed since it was approved by {} on {}",
                before.decided_by,
                out.at(before.decided_at)
            )
        }
        (None, QuarantineReason::Flagged) => "was not trusted when the server was first seen".to_owned(),
        (None, _) => "is new".to_owned(),
    };
    out.line(&format!("{} {why}", tool.name))?;
    for flag in &tool.flags {
        out.line(&format!("  ! {} in {}: {}", flag.kind.as_str(), flag.at, flag.found))?;
    }
    tool.diff.iter().try_for_each(|line| out.line(&format!("  {line}")))?;
    out.block("\n")
}

fn asked(out: &Output, chosen: Vec<PendingTool>) -> anyhow::Result<Vec<PendingTool>> {
    let mut approved = Vec::new();
    for tool in chosen {
        if out.ask(&format!("Approve {}?", tool.name))? {
            approved.push(tool);
        }
    }
    Ok(approved)
}
