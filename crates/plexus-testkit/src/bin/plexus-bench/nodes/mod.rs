//! `plexus-bench nodes`: what it costs to have a tool run on another machine.
//!
//! A hub and a node as their users run them, both on this machine. The way to the node and back is what a call of a tool
//! there takes longer than a call of one in the hub, beside a bare WebSocket that says back what it is told, in one run.

mod idle;
mod output;
mod report;
mod round_trip;
pub(crate) mod site;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;

use crate::machine::Machine;
use idle::Idle;
use output::Flood;
use round_trip::RoundTrip;
use site::Site;

#[derive(Debug, Args)]
pub(crate) struct Nodes {
    /// The program to measure [default: `plexus` beside this program]
    #[arg(long, value_name = "PATH")]
    plexus: Option<PathBuf>,

    /// One short round, and fewer nodes
    #[arg(long)]
    quick: bool,

    /// Write everything that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the tables into this Markdown file, between its marks
    #[arg(long, value_name = "FILE")]
    docs: Option<PathBuf>,
}

/// Everything that one run gave.
#[derive(Debug, Serialize)]
struct Measured {
    machine: Machine,
    round_trips: Vec<RoundTrip>,
    floods: Vec<Flood>,
    idle: Idle,
}

pub(crate) async fn run(args: Nodes) -> Result<()> {
    let scratch = tempfile::tempdir().context("a temporary folder")?;
    let plexus = crate::args::program(args.plexus.as_deref())?;
    let (rounds, calls, nodes) = if args.quick { (1, 300, 20) } else { (5, 2_000, 200) };
    let (mut round_trips, mut floods) = (Vec::new(), Vec::new());
    for transport in ["ws", "poll"] {
        eprintln!("a node over {transport}");
        let site = Site::open(&plexus, &scratch.path().join(transport), Some(transport)).await?;
        round_trips.push(round_trip::measure(&site, transport, rounds, calls).await?);
        floods.push(output::measure(&site, transport).await?);
    }
    eprintln!("{nodes} idle nodes");
    let site = Site::open(&plexus, &scratch.path().join("idle"), None).await?;
    let idle = idle::measure(&site, nodes).await?;
    let measured = Measured { machine: Machine::look(&plexus)?, round_trips, floods, idle };
    report::write(&measured, args.json.as_deref(), args.docs.as_deref())
}
