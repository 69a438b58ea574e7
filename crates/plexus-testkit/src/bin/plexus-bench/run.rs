//! The whole run: the contenders alternate in rounds, so that any drift of the machine affects all of them equally.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::args::Args;
use crate::budget::{self, AtRest};
use crate::contenders::{self, Contender, Role, Running, Site};
use crate::idle::{self, IdleRow};
use crate::machine::Machine;
use crate::measure::{Pace, Sample, measure};
use crate::wire::Era;
use crate::workload::{AgentConnection, Workload};

const CONCURRENCY: [usize; 3] = [1, 8, 32];
/// A list of a thousand tools is a large answer; with more agents only the network would be measured.
const LIST_CONCURRENCY: [usize; 2] = [1, 8];

/// All results of a run.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) contenders: Vec<Contender>,
    /// Contenders that could not be installed, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    pub(crate) at_rest: Option<AtRest>,
    pub(crate) calls: Vec<Row>,
    pub(crate) lists: Vec<Row>,
    pub(crate) idle: Vec<IdleRow>,
}

/// A row of the tables, with one sample per round.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    #[serde(skip)]
    pub(crate) role: Role,
    pub(crate) contender: &'static str,
    pub(crate) label: String,
    #[serde(serialize_with = "name")]
    pub(crate) workload: Workload,
    pub(crate) era: Era,
    pub(crate) concurrency: usize,
    pub(crate) samples: Vec<Sample>,
    /// Why there are no samples.
    pub(crate) missing: Option<String>,
}

fn name<S: serde::Serializer>(workload: &Workload, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(workload.name())
}

pub(crate) async fn run(args: &Args, scratch: &Path) -> Result<Results> {
    let chosen = contenders::chosen(&args.only)?;
    let site = Site::new(args.plexus()?, scratch.to_owned());
    let pace = args.pace()?;
    let machine = Machine::detect(&site.plexus)?;
    allow_many_files();

    let (contenders, left_out) = install(chosen).await;
    let at_rest = match contenders.iter().any(|contender| contender.role == Role::Plexus) {
        true => Some(budget::measure(&site).await?),
        false => None,
    };
    let mut calls: Vec<Row> =
        contenders.iter().flat_map(|contender| rows(contender, &contender.calls())).collect();
    let listing = [Workload::ListTools(args.tools)];
    let mut lists: Vec<Row> = contenders
        .iter()
        .filter(|contender| contender.lists())
        .flat_map(|contender| rows(contender, &listing))
        .collect();
    for round in 1..=args.rounds() {
        for contender in &contenders {
            eprintln!("round {round} of {}: {}", args.rounds(), contender.label);
            measure_all(contender, &site, 0, pace, &mut calls).await?;
            measure_all(contender, &site, args.tools, pace, &mut lists).await?;
        }
    }
    let mut idle = Vec::new();
    for contender in contenders.iter().filter(|contender| contender.keeps_sessions()) {
        eprintln!("{} idle sessions: {}", args.sessions(), contender.label);
        idle.push(idle::measure(contender, &site, args.sessions()).await?);
    }
    Ok(Results { machine, contenders, left_out, at_rest, calls, lists, idle })
}

/// Installs the peers; the run continues without those that cannot be installed.
async fn install(chosen: Vec<Contender>) -> (Vec<Contender>, Vec<(String, String)>) {
    let (mut installed, mut left_out) = (Vec::new(), Vec::new());
    for contender in chosen {
        match contender.install().await {
            Ok(()) => installed.push(contender),
            Err(error) => {
                eprintln!("skipped {}: {error:#}", contender.label);
                left_out.push((contender.label, format!("{error:#}")));
            }
        }
    }
    (installed, left_out)
}

fn rows(contender: &Contender, workloads: &[Workload]) -> Vec<Row> {
    let mut rows = Vec::new();
    for workload in workloads {
        let listing = matches!(workload, Workload::ListTools(_));
        let concurrency = if listing { LIST_CONCURRENCY.as_slice() } else { &CONCURRENCY };
        // The hub has two workloads, so its name alone is ambiguous.
        let label = match workload {
            Workload::TodoList | Workload::TodoUpdate => format!("{}, {}", contender.label, workload.name()),
            _ => contender.label.clone(),
        };
        for era in Era::ALL {
            rows.extend(concurrency.iter().map(|concurrency| Row {
                role: contender.role,
                contender: contender.name,
                label: label.clone(),
                workload: *workload,
                era,
                concurrency: *concurrency,
                samples: vec![],
                missing: None,
            }));
        }
    }
    rows
}

/// Starts the contender and measures its rows.
async fn measure_all(
    contender: &Contender,
    site: &Site,
    tools: usize,
    pace: Pace,
    rows: &mut [Row],
) -> Result<()> {
    let contender_rows = |row: &&mut Row| row.contender == contender.name && row.missing.is_none();
    let mut contender_rows: Vec<&mut Row> = rows.iter_mut().filter(contender_rows).collect();
    if contender_rows.is_empty() {
        return Ok(());
    }
    let running = contender.start(site, tools).await;
    let mut failed_era: Option<(Era, String)> = None;
    for row in &mut contender_rows {
        // An era that fails once is not tried again.
        if let Some((era, reason)) = &failed_era
            && *era == row.era
        {
            row.missing = Some(reason.clone());
            continue;
        }
        let sample = match &running {
            Ok(running) => sample(row, running, pace).await,
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        match sample {
            Ok(sample) => row.samples.push(sample),
            Err(error) if row.role == Role::Peer => {
                let reason = format!("{error:#}");
                eprintln!("  {}, {}, {} at once: {reason}", row.label, row.era, row.concurrency);
                row.samples.clear();
                row.missing = Some(reason.clone());
                failed_era = Some((row.era, reason));
            }
            Err(error) => {
                let row = format!("{}, {}, {} at once", row.label, row.era, row.concurrency);
                return Err(error.context(row));
            }
        }
    }
    Ok(())
}

async fn sample(row: &Row, running: &Running, pace: Pace) -> Result<Sample> {
    // Check first whether it works at all, for a meaningful error.
    drop(AgentConnection::open(&running.endpoint, row.era, row.workload).await?);
    let sample = measure(running, row.era, row.workload, row.concurrency, pace).await;
    sample.with_context(|| format!("its log: {:?}", running.processes.log_tail()))
}

/// A thousand sessions need a thousand connections, here and in the started processes.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With a lower limit, the idle sessions fail with a meaningful error.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The median of the rounds.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Result<f64> {
    let mut values: Vec<f64> = values.collect();
    ensure!(!values.is_empty(), "a median of nothing");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    Ok(if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    })
}
