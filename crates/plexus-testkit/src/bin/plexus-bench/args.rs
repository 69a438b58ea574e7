//! Command-line arguments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};

use crate::load::Load;
use crate::measure::Pace;
use crate::serve::Server;

/// Measures the hub in comparison with a direct call, a bare pass-through and other gateways
#[derive(Debug, Parser)]
#[command(name = "plexus-bench", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The hub to measure [default: `plexus` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) plexus: Option<PathBuf>,

    /// Run a single short round
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure only these contenders: direct, floor, plexus, upstream, upstream-old, upstream-stdio,
    /// upstream-sse, plexus-list, mcp-proxy-rs, fastmcp, mcp-proxy-py, mcp-proxy-js
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Number of rounds; the reported figures are medians [default: 3, quick: 1]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// Seconds per row and round [default: 1.5, quick: 0.4]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,

    /// Number of tools in the long list
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) tools: usize,

    /// Number of idle sessions [default: 1000, quick: 200]
    #[arg(long, value_name = "N")]
    sessions: Option<usize>,

    /// Write all measurements to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the tables into this Markdown file, between its markers
    #[arg(long, value_name = "FILE")]
    pub(crate) docs: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one of the servers used by a measurement
    #[command(hide = true)]
    Serve {
        #[command(subcommand)]
        server: Server,
    },
    /// Measure the cost of running tools on other machines
    Nodes(MeasurementArgs),
    /// Measure the speed of copying files to and from other machines, compared with scp
    Copy(MeasurementArgs),
    /// Measure searches with the filesystem tool, compared with ripgrep
    Files(MeasurementArgs),
    /// Measure an agent's calls through the proxy compared with calls straight to the hub, and queued writes while
    /// the hub is down
    Proxy(MeasurementArgs),
    /// Call a running hub without measuring
    #[command(hide = true)]
    Load(Load),
}

/// Arguments of the additional measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct MeasurementArgs {
    /// The program to measure [default: `plexus` beside this program]
    #[arg(long, value_name = "PATH")]
    plexus: Option<PathBuf>,

    /// Run a single short round with reduced amounts
    #[arg(long)]
    pub(crate) quick: bool,

    /// Write all measurements to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the tables into this Markdown file, between its markers
    #[arg(long, value_name = "FILE")]
    pub(crate) docs: Option<PathBuf>,
}

impl MeasurementArgs {
    /// The program to measure; an error if it does not exist.
    pub(crate) fn plexus(&self) -> Result<PathBuf> {
        program(self.plexus.as_deref())
    }
}

impl Args {
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions.unwrap_or(if self.quick { 200 } else { 1_000 })
    }

    pub(crate) fn pace(&self) -> Result<Pace> {
        let seconds = self.seconds.unwrap_or(if self.quick { 0.4 } else { 1.5 });
        ensure!((0.01..=60.0).contains(&seconds), "--seconds must be between 0.01 and 60, not {seconds}");
        let measured = Duration::from_secs_f64(seconds);
        Ok(Pace { warm_up: measured / 4, measured })
    }

    /// The hub to measure; an error if it does not exist.
    pub(crate) fn plexus(&self) -> Result<PathBuf> {
        program(self.plexus.as_deref())
    }
}

/// The program to measure; an error if it does not exist.
fn program(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => std::env::current_exe().context("the path of this program")?.with_file_name("plexus"),
    };
    let found = path.canonicalize().with_context(|| {
        format!("{} does not exist; build it with `cargo build --release -p plexus`", path.display())
    })?;
    ensure!(found.is_file(), "{} is not a program", found.display());
    Ok(found)
}
