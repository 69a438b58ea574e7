//! Checks that the manifests of user-defined tools are valid, and that every enabled tool exists.

use std::sync::Arc;

use plexus_proto::api::{DefinedTool, DefinedTools, EnabledBy};
use plexus_tools::Registry;
use plexus_tools::custom::{CustomOptions, CustomTools, STATE_FILE};

use super::{CheckContext, Finding};
use crate::commands::Invocation;
use crate::output::one_line;

const CHECK: &str = "user tools";

/// Asks a running hub if possible, because it also knows name conflicts and its own environment.
pub(super) async fn check(
    context: &CheckContext,
    invocation: &Invocation<'_>,
    running: bool,
) -> Vec<Finding> {
    let in_hub = if running { fetch_tools(invocation).await.ok() } else { None };
    let tools = in_hub.unwrap_or_else(|| read_tools(context, invocation));
    let mut found: Vec<Finding> = tools.iter().flat_map(tool_findings).collect();
    let missing = |name: &&String| !tools.iter().any(|tool| tool.name == **name);
    found.extend(context.config.tools.enabled.iter().filter(missing).map(|name| {
        let message = format!("{name} is enabled by `tools.enabled` but has no manifest");
        Finding::warning(
            CHECK,
            message,
            format!("{} tools new {name}, or remove it from `tools.enabled`", context.plexus),
        )
    }));
    if found.is_empty() {
        let on = tools.iter().filter(|tool| tool.enabled_by.is_some()).count();
        found.push(Finding::ok(CHECK, format!("defined: {}, enabled: {on}", tools.len())));
    }
    found
}

async fn fetch_tools(invocation: &Invocation<'_>) -> anyhow::Result<Vec<DefinedTool>> {
    let tools: DefinedTools = invocation.hub()?.get(&["tools", "-", "defined"], &[]).await?.decode()?;
    Ok(tools.items)
}

fn read_tools(context: &CheckContext, invocation: &Invocation<'_>) -> Vec<DefinedTool> {
    let options = CustomOptions {
        dir: context.config.tools.dir.clone(),
        state: context.config.data_dir.join(STATE_FILE),
        environment: invocation.environment().clone(),
        configured: context.config.tools.enabled.clone(),
    };
    CustomTools::open(options, Arc::new(Registry::new([]))).list()
}

/// The problems of a tool; only warnings if it is disabled.
fn tool_findings(tool: &DefinedTool) -> Vec<Finding> {
    let finding = |problem: &String| {
        let (message, fix) = (one_line(problem), format!("correct {}", tool.file));
        match tool.enabled_by {
            Some(EnabledBy::Configuration | EnabledBy::Command) => Finding::problem(CHECK, message, fix),
            None => Finding::warning(CHECK, message, fix),
        }
    };
    tool.problems.iter().map(finding).collect()
}
