//! `plexus doctor`: looks at everything a hub on this machine needs, and says how to repair it.
//!
//! Each check is a file of its own and changes nothing, whether a hub runs or not. What it finds is
//! in order, a warning, or a problem; the last two come with what to do, as a command where there
//! is one.

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
use data_folder::Folder;

#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 0 when there is no problem, with warnings or without, and 1 when there is one.\n\n\
Example:\n  plexus doctor\n  plexus doctor --json"
)]
pub(crate) struct DoctorArgs {
    /// Configuration file [env: PLEXUS_CONFIG] [default: plexus.toml in the data folder, if it is
    /// there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder with the files of MCP servers, where the hub was started with another one [env: PLEXUS_MCP_DIR] [default:
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

/// What one check found out.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
    /// What to do about it; a command where there is one.
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

/// What the checks look at.
struct Subject {
    config: Config,
    /// How this program is called with the same data folder.
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
        examine(&Subject { config, plexus }, invocation, &mut findings).await;
    }
    show(&invocation.out, &findings)?;
    let worst = findings.iter().map(|finding| finding.level).max();
    Ok(if worst == Some(Level::Problem) { Exit::Failed } else { Exit::Ok }.into())
}

async fn examine(subject: &Subject, invocation: &Invocation<'_>, findings: &mut Vec<Finding>) {
    let (found, folder) = data_folder::check(subject);
    findings.extend(found);
    let (of_hub, seen) = match folder {
        // The folder would say where the hub is.
        Folder::Unusable if !invocation.names_hub() => (Vec::new(), None),
        _ => hub::check(subject, invocation).await,
    };
    // Before anything that takes its time.
    let seen_at = invocation.out.now();
    let mut has_database = false;
    if folder == Folder::Ours || subject.config.database_url.is_some() {
        let (found, exists) = database::check(subject, seen.as_ref()).await;
        findings.push(found);
        has_database = exists;
    }
    // What is not in a folder that no hub has used yet, or that is another's, is not missing.
    if folder == Folder::Ours {
        findings.push(signing_key::check(subject, has_database));
        findings.push(admin_token::check(subject, invocation.out.now()));
        findings.extend(audit::check(subject, has_database, seen.as_ref(), &invocation.out).await);
    }
    // That none was started yet was said of the folder.
    if folder != Folder::Unused || seen.is_some() || invocation.names_hub() {
        findings.extend(of_hub);
    }
    if folder != Folder::Unusable {
        findings.extend(upstreams::check(subject, invocation, seen.is_some()).await);
    }
    if folder == Folder::Ours {
        findings.extend(profiles::check(subject, invocation, seen.is_some()).await);
        findings.extend(user_tools::check(subject, invocation, seen.is_some()).await);
    }
    if folder == Folder::Ours || folder == Folder::Unused {
        findings.extend(agents::check(subject, invocation, seen.is_some()).await);
    }
    findings.push(port::check(subject, seen.as_ref()));
    findings.push(clock::check(seen_at, seen.as_ref()));
    findings.push(disk::check(subject));
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
        out.line(&format!("{:<7}  {check:<width$}  {message}", level.as_str()))?;
        if let Some(fix) = fix {
            out.line(&format!("{:<7}  {:<width$}  fix: {fix}", "", ""))?;
        }
    }
    out.line(&match (problems, warnings) {
        (0, 0) => "Everything is in order.".to_owned(),
        (0, warnings) => format!("No problems; warnings: {warnings}."),
        (problems, warnings) => format!("Problems: {problems}; warnings: {warnings}."),
    })
}

/// The configuration without what made it unusable, to go on with the other checks.
fn fallback(mcp_dir: Option<&Path>, invocation: &Invocation<'_>) -> Option<Config> {
    let flags = RawConfig {
        data_dir: invocation.data_dir().map(PathBuf::from),
        mcp_dir: mcp_dir.map(PathBuf::from),
        ..RawConfig::default()
    };
    let environment = invocation.environment().without_settings();
    Config::load(Some("/dev/null".as_ref()), &environment, flags).ok()
}
