//! `plexus tools list --defined`, `test`, `enable` and `disable`: manages user-defined tools.

use std::process::ExitCode;

use clap::Args;
use plexus_proto::api::{CallToolParams, DefinedTool, DefinedToolState, DefinedTools, EnabledBy, ToolTrial};
use serde_json::Value;

use crate::arguments;
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{Column, one_line};

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Name of the tool
    name: String,
    /// Argument (repeatable)
    #[arg(long = "arg", value_name = "KEY=VALUE", value_parser = arguments::key_value)]
    pairs: Vec<(String, Value)>,
    /// Arguments as a JSON object, as @FILE, or as - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    json_args: Option<String>,
}

pub(super) async fn list(invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let answer = invocation.hub()?.get(&["tools", "-", "defined"], &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let DefinedTools { dir, items } = answer.decode()?;
    if items.is_empty() {
        out.note(&format!("No user-defined tools in {dir}. Create one with `plexus tools new NAME`."));
        return Ok(Exit::Ok.into());
    }
    let rows = items.iter().map(|tool| {
        let about = tool.description.lines().next().unwrap_or_default();
        vec![tool.name.clone(), state(tool).to_owned(), about.to_owned(), tool.file.clone()]
    });
    out.table(
        &[Column::new("NAME"), Column::whole("STATE"), Column::new("ABOUT"), Column::path("FILE")],
        rows.collect(),
    )?;
    for problem in items.iter().flat_map(|tool| &tool.problems) {
        out.note(&one_line(problem));
    }
    Ok(Exit::Ok.into())
}

fn state(tool: &DefinedTool) -> &'static str {
    match (tool.state, tool.enabled_by) {
        (DefinedToolState::Invalid, Some(_)) => "enabled, but invalid",
        (DefinedToolState::Invalid, None) => "invalid",
        (DefinedToolState::Disabled, _) => "disabled",
        (DefinedToolState::Enabled, Some(EnabledBy::Configuration)) => "enabled, by configuration",
        (DefinedToolState::Enabled, _) => "enabled",
    }
}

pub(super) async fn switch(
    name: &str,
    operation: &str,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let answer = invocation.hub()?.post(&["tools", name, operation], &serde_json::json!({}), &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let tool: DefinedTool = answer.decode()?;
    let name = one_line(&tool.name);
    out.line(&match tool.state {
        DefinedToolState::Enabled => format!("Enabled {name}. Call it with `plexus tools call {name}`."),
        _ => format!("Disabled {name}."),
    })?;
    Ok(Exit::Ok.into())
}

pub(super) async fn test(args: TestArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let TestArgs { name, pairs, json_args } = args;
    let params = CallToolParams { arguments: arguments::tool_arguments(json_args.as_deref(), pairs)? };
    let answer = invocation.hub()?.post(&["tools", &name, "test"], &params, &[]).await?;
    let out = &invocation.out;
    let trial: ToolTrial = answer.decode()?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    } else {
        let ended = trial.exit.as_deref().unwrap_or(if trial.ran { "killed" } else { "not started" });
        out.fields(&[
            ("tool", trial.tool.clone()),
            ("works", works(&trial).to_owned()),
            ("program", ended.to_owned()),
            ("time", format!("{} ms", trial.elapsed_ms)),
            ("record", format!("plexus audit show {}", trial.call_id)),
        ])?;
        let parts = [
            ("Result", trial.text.clone()),
            ("Error", trial.error.clone()),
            ("Standard error", Some(trial.stderr.join("\n")).filter(|text| !text.is_empty())),
        ];
        for (heading, text) in parts {
            if let Some(text) = text {
                out.block(&format!("\n{heading}\n{}\n", text.trim_end()))?;
            }
        }
    }
    if trial.success {
        return Ok(Exit::Ok.into());
    }
    let message = match trial.problems.is_empty() {
        true => format!("{} does not work", one_line(&trial.tool)),
        false => format!("{} was not tested: the arguments are invalid", one_line(&trial.tool)),
    };
    Err(Failure::new(Exit::Failed, message).into())
}

/// Whether the tool works. Invalid arguments prove nothing about the tool.
fn works(trial: &ToolTrial) -> &'static str {
    match (trial.success, trial.problems.is_empty()) {
        (true, _) => "yes",
        (false, true) => "no",
        (false, false) => "not tested",
    }
}
