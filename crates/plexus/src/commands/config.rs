//! `plexus config`: shows the configuration that `plexus up` would use, and the origin of each value.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_kit::config::{self, Problem, RawConfig};
use plexus_kit::{Config, ConfigError};
use plexus_proto::api::{ConfigSetting, Page};
use serde_json::json;

use super::Invocation;
use crate::failure::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show the configuration in effect, without secrets
    #[command(
        after_help = "Shows what `plexus up` would read now from the file and the environment. A running hub \
uses what it read when it started or last received SIGHUP.\n\n\
Example:\n  plexus config show --origin"
    )]
    Show {
        /// Show where each value came from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        file: FileArgs,
    },
    /// Find all errors in the configuration
    #[command(after_help = "The exit code is 0 if the configuration is valid and 2 if it is not.\n\n\
Example:\n  plexus config check --config ./plexus.toml")]
    Check {
        #[command(flatten)]
        file: FileArgs,
    },
    /// Print a configuration file with every setting, explained and commented out
    #[command(after_help = "Example:\n  plexus config default > plexus.toml")]
    Default,
}

#[derive(Debug, Args)]
struct FileArgs {
    /// Configuration file [env: PLEXUS_CONFIG] [default: plexus.toml in the data folder, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: ConfigArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        ConfigCommand::Show { origin, file } => show(origin, &file, invocation)?,
        ConfigCommand::Check { file } => return check(&file, invocation),
        ConfigCommand::Default => invocation.out.block(&config::default_file())?,
    }
    Ok(Exit::Ok.into())
}

fn show(origin: bool, file: &FileArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let out = &invocation.out;
    let config = load(file.config.as_deref(), invocation).map_err(unusable)?;
    if out.json() {
        let page: Page<ConfigSetting> = Page { items: config.settings.report(), next: None };
        return out.json_line(&serde_json::to_string(&page)?);
    }
    let rows = config.settings.iter().map(|effective| {
        let mut row = vec![effective.setting.key.to_owned(), effective.value.to_string()];
        row.extend(origin.then(|| effective.origin.to_string()));
        row
    });
    let headers = ["KEY", "VALUE", "ORIGIN"];
    out.table(&headers[..if origin { 3 } else { 2 }], rows.collect())
}

fn check(file: &FileArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let checked = load(file.config.as_deref(), invocation);
    let warnings = match &checked {
        Ok(config) => config.warnings(),
        Err(error) => &error.warnings,
    };
    if out.json() {
        let problems = checked.as_ref().err().map_or(&[][..], |error| &error.problems);
        let problems: Vec<_> = problems.iter().map(problem_json).collect();
        out.json_line(
            &json!({ "ok": checked.is_ok(), "problems": problems, "warnings": warnings }).to_string(),
        )?;
        return Ok(if checked.is_ok() { Exit::Ok } else { Exit::Usage }.into());
    }
    for warning in warnings {
        out.note(&format!("warning: {warning}"));
    }
    checked.map_err(unusable)?;
    let path = config::file_path(file.config.as_deref(), invocation.environment(), &flags(invocation));
    out.line(&match path {
        Some(path) => format!("The configuration is valid: {}", path.display()),
        None => "The configuration is valid: no file, only defaults and variables".to_owned(),
    })?;
    Ok(Exit::Ok.into())
}

/// A problem as JSON; the message does not repeat the origin.
fn problem_json(problem: &Problem) -> serde_json::Value {
    let origin = problem.origin().map(|origin| origin.to_string());
    let text = problem.to_string();
    let message = origin.as_deref().and_then(|origin| text.strip_prefix(origin)?.strip_prefix(": "));
    json!({ "origin": origin, "key": problem.key(), "message": message.unwrap_or(&text) })
}

/// Loads the configuration that `plexus up` would use.
pub(super) fn load(file: Option<&Path>, invocation: &Invocation<'_>) -> Result<Config, ConfigError> {
    Config::load(file, invocation.environment(), flags(invocation))
}

/// Like [`load`], with `--mcp-dir`.
pub(super) fn load_with(
    file: Option<&Path>,
    mcp_dir: Option<&Path>,
    invocation: &Invocation<'_>,
) -> Result<Config, ConfigError> {
    let flags = RawConfig { mcp_dir: mcp_dir.map(Path::to_owned), ..flags(invocation) };
    Config::load(file, invocation.environment(), flags)
}

fn flags(invocation: &Invocation<'_>) -> RawConfig {
    RawConfig { data_dir: invocation.data_dir().map(Path::to_owned), ..RawConfig::default() }
}

fn unusable(error: ConfigError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
        .hint("`plexus config default` prints every setting with its possible values")
}
