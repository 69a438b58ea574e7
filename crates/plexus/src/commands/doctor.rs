//! `plexus doctor`: checks everything that a hub on this machine needs, and says how to fix problems.
//!
//! Each check has its own file and changes nothing, whether a hub runs or not. A finding is ok, a
//! warning or a problem; the last two come with a fix, a command where possible.

mod admin_token;
mod agents;
mod audit;
mod clock;
mod configuration;
mod data_folder;
mod database;
mod disk;
mod environment;
mod hub;
mod open_files;
mod port;
mod profiles;
mod signing_key;
mod upstreams;
mod user_tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use plexus_kit::Config;
use plexus_kit::config::RawConfig;
use serde::Serialize;

use super::Invocation;
use crate::failure::Exit;
use crate::output::Output;
use crate::shell;
use data_folder::FolderState;

#[derive(Debug, Args)]
#[command(after_help = "The exit code is 1 if there is a problem, otherwise 0, even with warnings.\n\n\
Example:\n  plexus doctor\n  plexus doctor --json")]
pub(crate) struct DoctorArgs {
    /// Configuration file [env: PLEXUS_CONFIG] [default: plexus.toml in the data folder, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder with the files of MCP servers, as passed to the hub [env: PLEXUS_MCP_DIR] [default:
    /// mcp_servers.d in the data folder]
    #[arg(long, value_name = "DIR")]
    mcp_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warning,
    Problem,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One result of a check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
    /// How to fix it, a command where possible.
    fix: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, message: message.into(), fix: None }
    }

    fn warning(check: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    fn problem(check: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Problem, message: message.into(), fix: Some(fix.into()) }
    }
}

/// Input of all checks.
struct CheckContext {
    config: Config,
    /// The command line that starts this program with the same data folder.
    plexus: String,
}

pub(crate) async fn run(args: DoctorArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let environment = invocation.environment();
    let (mut findings, config) =
        configuration::check(args.config.as_deref(), args.mcp_dir.as_deref(), invocation);
    findings.extend(environment::check(environment));
    if let Some(config) = config {
        let plexus = match invocation.data_dir() {
            Some(folder) => format!("{} --data-dir {}", shell::plexus(environment), shell::word(folder)),
            None => shell::plexus(environment),
        };
        run_checks(&CheckContext { config, plexus }, invocation, &mut findings).await;
    }
    show(&invocation.out, &findings)?;
    let worst = findings.iter().map(|finding| finding.level).max();
    Ok(if worst == Some(Level::Problem) { Exit::Failed } else { Exit::Ok }.into())
}

async fn run_checks(context: &CheckContext, invocation: &Invocation<'_>, findings: &mut Vec<Finding>) {
    let (found, folder) = data_folder::check(context);
    findings.extend(found);
    let (hub_findings, running_hub) = match folder {
        // The address of the hub would be in the folder.
        FolderState::Unusable if !invocation.names_hub() => (Vec::new(), None),
        _ => hub::check(context, invocation).await,
    };
    // Read before the slow checks, to compare it with the hub's clock.
    let checked_at = invocation.out.now();
    let mut has_database = false;
    if folder == FolderState::Ours || context.config.database_url.is_some() {
        let (found, exists) = database::check(context, running_hub.as_ref()).await;
        findings.push(found);
        has_database = exists;
    }
    // In a folder that no hub has used, or that is not a data folder, nothing is missing.
    if folder == FolderState::Ours {
        findings.push(signing_key::check(context, has_database));
        findings.push(admin_token::check(context, invocation.out.now()));
        findings.extend(audit::check(context, has_database, running_hub.as_ref(), &invocation.out).await);
    }
    // For an unused folder, the folder check already says that no hub was started.
    if folder != FolderState::Unused || running_hub.is_some() || invocation.names_hub() {
        findings.extend(hub_findings);
    }
    // A hub that was named runs with other files than those of this folder.
    let folder_hub = running_hub.as_ref().filter(|hub| hub.on_folder);
    if folder != FolderState::Unusable {
        findings.extend(upstreams::check(context, invocation, folder_hub.is_some()).await);
    }
    if folder == FolderState::Ours {
        findings.extend(profiles::check(context, invocation, folder_hub.is_some()).await);
        findings.extend(user_tools::check(context, invocation, folder_hub.is_some()).await);
    }
    if folder == FolderState::Ours || folder == FolderState::Unused {
        findings.extend(agents::check(context, invocation).await);
    }
    findings.push(port::check(context));
    findings.push(clock::check(checked_at, running_hub.as_ref()));
    findings.push(disk::check(context));
    findings.push(open_files::check());
}

fn show(out: &Output, findings: &[Finding]) -> anyhow::Result<()> {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    if out.json() {
        let report = serde_json::json!({ "ok": problems == 0, "findings": findings });
        return out.json_line(&report.to_string());
    }
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
    for Finding { check, level, message, fix } in findings {
        out.labelled(&format!("{:<7}  {check:<width$}  ", level.as_str()), message)?;
        if let Some(fix) = fix {
            out.labelled(&format!("{:<7}  {:<width$}  fix: ", "", ""), fix)?;
        }
    }
    out.line(&match (problems, warnings) {
        (0, 0) => "Everything is in order.".to_owned(),
        (0, warnings) => format!("No problems; warnings: {warnings}."),
        (problems, warnings) => format!("Problems: {problems}; warnings: {warnings}."),
    })
}

/// A configuration from the flags only, for the other checks if the real one is invalid.
fn fallback(mcp_dir: Option<&Path>, invocation: &Invocation<'_>) -> Option<Config> {
    let flags = RawConfig {
        data_dir: invocation.data_dir().map(PathBuf::from),
        mcp_dir: mcp_dir.map(PathBuf::from),
        ..RawConfig::default()
    };
    let environment = invocation.environment().without_settings();
    Config::load(Some("/dev/null".as_ref()), &environment, flags).ok()
}
