//! `plexus profile`: lists and shows profiles, which set the tools and prompts of agents.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_proto::api::{Profile, ProfileDetail};
use plexus_proto::tool_name;

use super::Invocation;
use crate::failure::Exit;
use crate::listing::{self, ListArgs};
use crate::output::{Output, one_line};

/// Prefix of the hub's warning about a missing MCP server.
const NO_SERVER: &str = "mcp_servers: there are no tools of ";

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// List all profiles, built-in and from profiles/ in the data folder
    #[command(after_help = "Example:\n  plexus profile list")]
    List(ListArgs),
    /// Show a profile: its tools, prompts and problems
    #[command(after_help = "Example:\n  plexus profile show developer")]
    Show {
        /// Id of the profile: the name of its folder
        id: String,
    },
}

pub(crate) async fn run(args: ProfileArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        ProfileCommand::List(args) => list(&args, invocation).await,
        ProfileCommand::Show { id } => show(&id, invocation).await,
    }
}

async fn list(args: &ListArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let page = listing::fetch(&invocation.hub()?, &["profiles"], &[], args, |_| true).await?;
    let row = |profile: &Profile| {
        vec![
            profile.id.clone(),
            state(profile).to_owned(),
            profile.enabled_tools.len().to_string(),
            profile.subagent_tools.len().to_string(),
            if profile.file.is_some() { "file" } else { "shipped" }.to_owned(),
            profile.description.clone(),
        ]
    };
    let headers = ["ID", "STATE", "TOOLS", "SUB-AGENT TOOLS", "SOURCE", "DESCRIPTION"];
    listing::show(&invocation.out, &page, &headers, row, "No profiles.")?;
    Ok(Exit::Ok.into())
}

fn state(profile: &Profile) -> &'static str {
    match (profile.usable, profile.warnings.iter().all(|warning| is_expected(profile, warning))) {
        (false, _) => "broken",
        (true, false) => "warnings",
        (true, true) => "ok",
    }
}

/// Built-in profiles may use MCP servers that are not installed; such a warning is not a problem.
fn is_expected(profile: &Profile, warning: &str) -> bool {
    profile.file.is_none() && warning.starts_with(NO_SERVER)
}

async fn show(id: &str, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let answer = invocation.hub()?.get(&["profiles", id], &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let ProfileDetail { profile, system_prompt, subagent_system_prompt } = answer.decode()?;
    let or_default = |text: Option<String>, default: &str| text.unwrap_or_else(|| default.to_owned());
    let models = match profile.model.is_empty() {
        true => "the hub's default".to_owned(),
        false => profile.model.join(", then "),
    };
    out.fields(&[
        ("profile", profile.id.clone()),
        ("name", profile.name.clone()),
        ("state", state(&profile).to_owned()),
        ("source", or_default(profile.file.clone(), "built-in")),
        ("description", one_line(&profile.description)),
        ("when to use", one_line(&profile.full_description.when_to_use)),
        ("model", models),
    ])?;
    let problems = profile.problems.iter().map(|problem| match problem.field.as_str() {
        "" => format!("{}: {}", problem.file, problem.message),
        field => format!("{}: `{field}`: {}", problem.file, problem.message),
    });
    print_list(out, "Problems (tokens of this profile see no tools)", problems)?;
    let (expected, warnings): (Vec<String>, Vec<String>) =
        profile.warnings.iter().cloned().partition(|warning| is_expected(&profile, warning));
    print_list(out, "Warnings", warnings.into_iter())?;
    print_list(out, "Information", expected.into_iter())?;
    print_list(out, "Tools", profile.enabled_tools.into_iter())?;
    if profile.thin {
        let listed = [tool_name::SEARCH, tool_name::CALL].map(str::to_owned);
        print_list(out, "Listed tools (thin profile)", listed.into_iter().chain(profile.pinned))?;
    }
    print_list(out, "Tools of sub-agents", profile.subagent_tools.into_iter())?;
    for (heading, prompt) in
        [("System prompt", system_prompt), ("System prompt of sub-agents", subagent_system_prompt)]
    {
        if let Some(prompt) = prompt {
            out.block(&format!("\n{heading}\n{}\n", prompt.trim_end()))?;
        }
    }
    Ok(Exit::Ok.into())
}

/// Prints a list under a heading, unless it is empty.
fn print_list(out: &Output, heading: &str, items: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let items: Vec<String> = items.map(|item| format!("  {}\n", one_line(&item))).collect();
    if items.is_empty() {
        return Ok(());
    }
    out.block(&format!("\n{heading}\n{}", items.concat()))
}
