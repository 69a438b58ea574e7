//! What the program is told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};

use crate::load::Load;
use crate::measure::Pace;
use crate::serve::Server;

/// Measures the hub beside a direct call, a bare pass-through and other gateways
#[derive(Debug, Parser)]
#[command(name = "plexus-bench", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The hub to measure [default: `plexus` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) plexus: Option<PathBuf>,

    /// One short round
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure only these contenders: direct, floor, plexus, upstream, upstream-old, upstream-stdio,
    /// upstream-sse, plexus-list, mcp-proxy-rs, fastmcp, mcp-proxy-py, mcp-proxy-js
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// How often everything is measured; the figures are medians [default: 3, quick: 1]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// How long each row is measured in each round [default: 1.5, quick: 0.4]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,

    /// Tools in the long list
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) tools: usize,

    /// Idle sessions [default: 1000, quick: 200]
    #[arg(long, value_name = "N")]
    sessions: Option<usize>,

    /// Write everything that was measured to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the tables into this Markdown file, between its marks
    #[arg(long, value_name = "FILE")]
    pub(crate) docs: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be one of the servers of a run
    #[command(hide = true)]
    Serve {
        #[command(subcommand)]
        server: Server,
    },
    /// Measure what it costs to have tools run on other machines
    Nodes(AsideArgs),
    /// Measure how fast files are copied to and from other machines, beside scp
    Copy(AsideArgs),
    /// Measure searches with the tool for files beside ripgrep
    Files(AsideArgs),
    /// Measure an agent's calls through the proxy beside calls straight to the hub, and what waits while the hub is away
    Proxy(AsideArgs),
    /// Call a hub that runs, and measure nothing
    #[command(hide = true)]
    Load(Load),
}

/// What a measurement beside the main one is told.
#[derive(Debug, clap::Args)]
pub(crate) struct AsideArgs {
    /// The program to measure [default: `plexus` beside this program]
    #[arg(long, value_name = "PATH")]
    plexus: Option<PathBuf>,

    /// One short round, with less of everything
    #[arg(long)]
    pub(crate) quick: bool,

    /// Write everything that was measured to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the tables into this Markdown file, between its marks
    #[arg(long, value_name = "FILE")]
    pub(crate) docs: Option<PathBuf>,
}

impl AsideArgs {
    /// The program to measure, which must be there.
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
        ensure!((0.01..=60.0).contains(&seconds), "--seconds {seconds}: between 0.01 and 60");
        let measured = Duration::from_secs_f64(seconds);
        Ok(Pace { warm_up: measured / 4, measured })
    }

    /// The hub to measure, which must be there.
    pub(crate) fn plexus(&self) -> Result<PathBuf> {
        program(self.plexus.as_deref())
    }
}

/// The program to measure, which must be there.
fn program(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => std::env::current_exe().context("the path of this program")?.with_file_name("plexus"),
    };
    let found = path.canonicalize().with_context(|| {
        format!("no hub at {}; build it with `cargo build --release -p plexus`", path.display())
    })?;
    ensure!(found.is_file(), "{} is not a program", found.display());
    Ok(found)
}
