//! `plexus tools cost`: shows how much of a model's context the tools use.

use std::process::ExitCode;

use clap::Args;
use plexus_proto::api::ToolsCost;

use crate::commands::Invocation;
use crate::failure::Exit;
use crate::listing;

#[derive(Debug, Args)]
pub(super) struct CostArgs {
    /// Count the tools that a token with this profile sees [default: those of your token]
    #[arg(long, value_name = "ID")]
    profile: Option<String>,
    /// Maximum number of tools to show
    #[arg(long, value_name = "N", default_value = "20", value_parser = listing::limit)]
    limit: usize,
}

pub(super) async fn run(args: &CostArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let answer = invocation.hub()?.get(&["tools", "cost"], &[("profile", args.profile.clone())]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let cost: ToolsCost = answer.decode()?;
    let server_name = |server: &Option<String>| server.clone().unwrap_or_else(|| "(hub)".to_owned());
    let share = |share: f64| format!("{share:.1} %");
    let servers = cost.servers.iter().map(|server| {
        vec![
            server_name(&server.server),
            server.tools.to_string(),
            server.tool_tokens.to_string(),
            server.instruction_tokens.to_string(),
            server.tokens.to_string(),
            share(server.share),
        ]
    });
    out.table(
        &["SERVER", "TOOLS", "TOOL TOKENS", "INSTRUCTION TOKENS", "TOKENS", "SHARE"],
        servers.collect(),
    )?;
    out.block("\n")?;
    let most_expensive = cost.tools.iter().take(args.limit).map(|tool| {
        vec![tool.name.clone(), server_name(&tool.server), tool.tokens.to_string(), share(tool.share)]
    });
    out.table(&["TOOL", "SERVER", "TOKENS", "SHARE"], most_expensive.collect())?;
    if let Some(more @ 1..) = cost.tools.len().checked_sub(args.limit) {
        out.note(&format!("{} more: raise --limit", tools(more)));
    }
    let profile = cost.profile.map_or(String::new(), |profile| format!(" in the profile {profile}"));
    out.block(&format!(
        "\n{} tokens for {}{profile}, counted with {}.\n",
        cost.tokens,
        tools(cost.tools.len()),
        cost.tokenizer
    ))?;
    if let Some(unlisted) = cost.unlisted {
        out.block(&format!(
            "{} more can be searched and called, and would use {} tokens if listed.\n",
            tools(unlisted.tools),
            unlisted.tokens
        ))?;
    }
    Ok(Exit::Ok.into())
}

fn tools(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}
