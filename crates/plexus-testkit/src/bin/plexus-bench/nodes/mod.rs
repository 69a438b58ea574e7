//! `plexus-bench nodes`: the cost of running a tool on another machine.
//!
//! A hub and a node as their users run them, both on this machine. The hub itself measures the round trip to the
//! node, which is compared with a bare WebSocket echo in the same run.

mod idle;
mod output;
mod report;
mod round_trip;
pub(crate) mod site;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::args::MeasurementArgs;
use crate::machine::Machine;
use crate::report::write_measurement;
use idle::Idle;
use output::Flood;
use round_trip::RoundTrip;
use site::Site;

/// All measurements of a run.
#[derive(Debug, Serialize)]
struct Measured {
    machine: Machine,
    round_trips: Vec<RoundTrip>,
    floods: Vec<Flood>,
    idle: Idle,
}

pub(crate) async fn run(args: MeasurementArgs, scratch: &Path) -> Result<()> {
    let plexus = args.plexus()?;
    let (rounds, calls, nodes) = if args.quick { (1, 300, 20) } else { (5, 2_000, 200) };
    let (mut round_trips, mut floods) = (Vec::new(), Vec::new());
    for transport in ["ws", "poll"] {
        eprintln!("a node over {transport}");
        let site = Site::open(&plexus, &scratch.join(transport), Some(transport)).await?;
        round_trips.push(round_trip::measure(&site, scratch, transport, rounds, calls).await?);
        floods.push(output::measure(&site, transport).await?);
    }
    eprintln!("{nodes} idle nodes");
    let site = Site::open(&plexus, &scratch.join("idle"), None).await?;
    let idle = idle::measure(&site, nodes).await?;
    let measured = Measured { machine: Machine::detect(&plexus)?, round_trips, floods, idle };
    write_measurement("nodes", &report::text(&measured), &measured, &args)
}
