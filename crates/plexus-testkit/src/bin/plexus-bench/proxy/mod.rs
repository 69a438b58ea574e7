//! `plexus-bench proxy`: the cost of `plexus mcp` between an agent and the hub.
//!
//! The same calls go straight to the hub, through a proxy over HTTP, and through one over stdio, alternating and
//! sequentially. Then the hub is stopped: how fast writes are stored, compared with writing and syncing a file on
//! the same disk, and how fast they are delivered when the hub is back.

mod calls;
mod idle;
mod offline_writes;
mod report;
mod site;
mod stdio_connection;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::args::MeasurementArgs;
use crate::machine::Machine;
use crate::report::write_measurement;
use calls::Calls;
use idle::Idle;
use offline_writes::{Replay, WriteRates};
use site::Site;

/// All measurements of a run.
#[derive(Debug, Serialize)]
struct Measured {
    machine: Machine,
    calls: Vec<Calls>,
    away: WriteRates,
    replays: Vec<Replay>,
    idle: Vec<Idle>,
}

/// The amounts to measure.
#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    /// Calls per path and round.
    calls: usize,
    /// Stored writes of each kind.
    writes: usize,
    /// Delivered writes.
    rows: usize,
    rest_seconds: u64,
}

const FULL: Plan = Plan { rounds: 9, calls: 1_000, writes: 2_000, rows: 10_000, rest_seconds: 10 };
const QUICK: Plan = Plan { rounds: 1, calls: 50, writes: 50, rows: 200, rest_seconds: 1 };

pub(crate) async fn run(args: MeasurementArgs) -> Result<()> {
    // Not in /tmp, which may be in memory: the disk is measured.
    let scratch = tempfile::tempdir_in("/var/tmp").context("a temporary folder")?;
    let plexus = args.plexus()?;
    let plan = if args.quick { QUICK } else { FULL };
    let machine = Machine::detect(&plexus)?;
    let mut site = Site::open(&plexus, scratch.path()).await?;
    eprintln!("calls");
    let calls = calls::measure(&site, plan).await?;
    eprintln!("proxies with nothing to do");
    let idle = idle::measure(&site, plan).await?;
    eprintln!("writes without a hub");
    let away = offline_writes::store(&mut site, plan).await?;
    let mut replays = Vec::new();
    for conversations in [1, 10] {
        eprintln!("{} queued writes of {conversations} conversation(s)", plan.rows);
        replays.push(offline_writes::replay(&mut site, plan, conversations).await?);
    }
    let measured = Measured { machine, calls, away, replays, idle };
    write_measurement("proxy", &report::text(&measured), &measured, &args)
}
