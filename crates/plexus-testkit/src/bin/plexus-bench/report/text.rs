//! Formats the results as Markdown tables.

use std::collections::BTreeSet;

use anyhow::Result;

use super::compare::{Figures, Ratios};
use super::table::{Table, count, number};
use crate::args::Args;
use crate::contenders::Role;
use crate::run::{Results, Row};
use crate::wire::Era;

const HEADS: [&str; 11] = [
    "contender",
    "c",
    "calls/s",
    "p50 ms",
    "p99 ms",
    "CPU s per 1,000",
    "peak MB",
    "p50 ÷ direct",
    "calls/s ÷ floor",
    "calls/s ÷ best peer",
    "CPU ÷ best peer",
];

pub(super) fn all(results: &Results, args: &Args) -> Result<String> {
    let mut parts = vec![intro(results, args)];
    if results.at_rest.is_some() {
        parts.push(budgets(results)?);
    }
    for era in Era::ALL {
        parts.push(format!("### Calls, {era}\n\n{}", figures(&results.calls, era)?));
    }
    for era in Era::ALL {
        let title = format!("### `tools/list` of {} tools, {era}", count(args.tools));
        parts.push(format!("{title}\n\n{}", figures(&results.lists, era)?));
    }
    parts.push(idle(results));
    parts.extend(notes(results));
    parts.push(client(results)?);
    Ok(parts.join("\n"))
}

fn intro(results: &Results, args: &Args) -> String {
    let machine = &results.machine;
    format!(
        "{date}, {plexus}, on {cores} cores of {cpu} with {memory:.0} GB, Linux {kernel}; load average {load} in the \
         minute before. Medians of {rounds} round(s), each row {seconds} s per round after a warm-up.\n",
        date = machine.date,
        plexus = machine.plexus,
        cores = machine.cores,
        cpu = machine.cpu,
        memory = machine.memory_gb,
        kernel = machine.kernel,
        load = machine.load_before,
        rounds = args.rounds(),
        seconds = args.pace().map_or(0.0, |pace| pace.measured.as_secs_f64()),
    )
}

/// Compares the figures with the budgets.
fn budgets(results: &Results) -> Result<String> {
    let mut table = Table::new(&["budget", "figure", "limit", "met"]);
    let mut bounded = |name: &str, figure: Option<f64>, unit: &str, limit: f64, is_minimum: bool| {
        let within = |figure: f64| if is_minimum { figure >= limit } else { figure <= limit };
        let met = figure.map_or("–", |figure| if within(figure) { "yes" } else { "no" });
        let figure = figure.map_or("–".to_owned(), |figure| format!("{}{unit}", number(Some(figure))));
        let bound = if is_minimum { "≥" } else { "≤" };
        table.add([name.to_owned(), figure, format!("{bound} {limit}{unit}"), met.to_owned()]);
    };
    let mut row = |name: &str, figure, unit: &str, limit| bounded(name, figure, unit, limit, false);
    let at_rest = results.at_rest;
    row("release binary", at_rest.map(|at_rest| at_rest.binary_mb), " MB", 40.0);
    row("start to ready, with an existing database", at_rest.map(|at_rest| at_rest.start_ms), " ms", 150.0);
    row("memory at rest", at_rest.map(|at_rest| at_rest.rss_mb), " MB", 30.0);
    let hub = results.idle.iter().find(|row| row.contender == "plexus");
    let after = hub.filter(|row| row.sessions >= 1_000).and_then(|row| row.figures);
    row("memory with 1,000 idle sessions", after.map(|after| after.rss_after_mb), " MB", 120.0);
    let through = |concurrency| {
        let upstream = |row: &&Row| row.contender == "upstream" && row.concurrency == concurrency;
        let row = results.calls.iter().find(|row| upstream(row) && row.era == Era::Stateless);
        row.map(|row| Ratios::of(row, &results.calls)).transpose()
    };
    // The overhead relative to a direct call, so the ratio minus one.
    let added = through(1)?.and_then(|ratios| ratios.p50_to_direct).map(|ratio| ratio - 1.0);
    row("p50 added to a direct call, through an upstream, c=1", added, " ×", 1.5);
    let cpu = through(32)?.and_then(|ratios| ratios.cpu_to_best_peer);
    row("CPU per call relative to the best peer, through an upstream, c=32", cpu, " ×", 0.6);
    let calls = through(32)?.and_then(|ratios| ratios.calls_to_best_peer);
    bounded("calls/s relative to the best peer, through an upstream, c=32", calls, " ×", 1.3, true);
    Ok(format!("### Budgets\n\n{}", table.render()))
}

fn figures(rows: &[Row], era: Era) -> Result<String> {
    let mut table = Table::new(&HEADS);
    let concurrency: BTreeSet<usize> = rows.iter().map(|row| row.concurrency).collect();
    for concurrency in concurrency {
        for row in rows.iter().filter(|row| row.era == era && row.concurrency == concurrency) {
            let (figures, ratios) = (Figures::of(row)?, Ratios::of(row, rows)?);
            let of = |figure: fn(&Figures) -> f64| number(figures.as_ref().map(figure));
            table.add([
                row.label.clone(),
                concurrency.to_string(),
                of(|figures| figures.calls_per_second),
                of(|figures| figures.p50_ms),
                of(|figures| figures.p99_ms),
                of(|figures| figures.cpu_s_per_1000),
                of(|figures| figures.peak_rss_mb),
                number(ratios.p50_to_direct),
                number(ratios.calls_to_floor),
                number(ratios.calls_to_best_peer),
                number(ratios.cpu_to_best_peer),
            ]);
        }
    }
    Ok(table.render())
}

fn idle(results: &Results) -> String {
    let mut table = Table::new(&["contender", "sessions", "MB before", "MB after", "KB per session"]);
    for row in &results.idle {
        let figures = row.figures;
        table.add([
            row.label.clone(),
            count(row.sessions),
            number(figures.map(|figures| figures.rss_before_mb)),
            number(figures.map(|figures| figures.rss_after_mb)),
            number(figures.map(|figures| figures.kb_per_session)),
        ]);
    }
    format!("### Idle sessions, each with its stream open\n\n{}", table.render())
}

/// Explains empty rows and missing contenders.
fn notes(results: &Results) -> Option<String> {
    let rows = results.calls.iter().chain(&results.lists).filter_map(|row| {
        let why = row.missing.as_ref()?;
        let era = if row.role == Role::Peer { format!(", {}", row.era) } else { String::new() };
        Some(format!("- {}{era}: {why}", row.label))
    });
    let idle = results
        .idle
        .iter()
        .filter_map(|row| Some(format!("- {}, idle sessions: {}", row.label, row.missing.as_ref()?)));
    let left_out = results.left_out.iter().map(|(label, why)| format!("- {label} was skipped: {why}"));
    let mut notes = Vec::new();
    for note in rows.chain(idle).chain(left_out) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    (!notes.is_empty()).then(|| format!("Without figures (–):\n\n{}\n", notes.join("\n")))
}

/// The CPU time of the client itself.
fn client(results: &Results) -> Result<String> {
    let mut costs = Vec::new();
    for row in results.calls.iter().filter(|row| row.role != Role::Peer) {
        costs.extend(Figures::of(row)?.map(|figures| figures.client_cpu_s_per_1000));
    }
    costs.sort_by(f64::total_cmp);
    let (least, most) = (number(costs.first().copied()), number(costs.last().copied()));
    Ok(format!("The client used {least} to {most} CPU s per 1,000 calls, on the same cores.\n"))
}
