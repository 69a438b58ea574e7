//! Whether the manifests of user-defined tools are in order, and what is switched on is there.

use std::sync::Arc;

use plexus_proto::api::{DefinedTool, DefinedTools, EnabledBy};
use plexus_tools::Registry;
use plexus_tools::custom::{CustomOptions, CustomTools, STATE_FILE};

use super::{Finding, Subject};
use crate::commands::Invocation;
use crate::output::one_line;

const CHECK: &str = "user tools";

/// As a running hub has them, which knows more: what has the name of another tool, and its own environment.
pub(super) async fn check(subject: &Subject, invocation: &Invocation<'_>, running: bool) -> Vec<Finding> {
    let of_hub = if running { of_hub(invocation).await.ok() } else { None };
    let tools = of_hub.unwrap_or_else(|| of_files(subject, invocation));
    let mut found: Vec<Finding> = tools.iter().flat_map(of_tool).collect();
    let missing = |name: &&String| !tools.iter().any(|tool| tool.name == **name);
    found.extend(subject.config.tools.enabled.iter().filter(missing).map(|name| {
        let message = format!("{name} is switched on by `tools.enabled`, and has no manifest");
        Finding::warning(CHECK, message, format!("{} tools new {name}, or take it out", subject.plexus))
    }));
    if found.is_empty() {
        let on = tools.iter().filter(|tool| tool.enabled_by.is_some()).count();
        found.push(Finding::ok(CHECK, format!("defined: {}, switched on: {on}", tools.len())));
    }
    found
}

async fn of_hub(invocation: &Invocation<'_>) -> anyhow::Result<Vec<DefinedTool>> {
    let tools: DefinedTools = invocation.hub()?.get(&["tools", "-", "defined"], &[]).await?.decode()?;
    Ok(tools.items)
}

fn of_files(subject: &Subject, invocation: &Invocation<'_>) -> Vec<DefinedTool> {
    let options = CustomOptions {
        dir: subject.config.tools.dir.clone(),
        state: subject.config.data_dir.join(STATE_FILE),
        environment: invocation.environment().clone(),
        configured: subject.config.tools.enabled.clone(),
    };
    CustomTools::open(options, Arc::new(Registry::new([]))).list()
}

/// A tool that is off harms nobody by being wrong.
fn of_tool(tool: &DefinedTool) -> Vec<Finding> {
    let told = |problem: &String| {
        let (message, fix) = (one_line(problem), format!("correct {}", tool.file));
        match tool.enabled_by {
            Some(EnabledBy::Configuration | EnabledBy::Command) => Finding::problem(CHECK, message, fix),
            None => Finding::warning(CHECK, message, fix),
        }
    };
    tool.problems.iter().map(told).collect()
}
