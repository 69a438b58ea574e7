//! One row of one round: a number of agents that call concurrently for a given time.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::contenders::Running;
use crate::process;
use crate::wire::Era;
use crate::workload::{AgentConnection, Workload};

/// Time limit for answers that are in flight when the time is over.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Duration of a row, and of its warm-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// The measurements of one row in one round.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Sample {
    pub(crate) calls: u64,
    pub(crate) calls_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// CPU seconds of the contender per 1,000 calls, without the echo server behind it.
    pub(crate) cpu_s_per_1000: f64,
    /// The same for this program, which makes the calls.
    pub(crate) client_cpu_s_per_1000: f64,
    pub(crate) peak_rss_mb: f64,
}

pub(crate) async fn measure(
    running: &Running,
    era: Era,
    workload: Workload,
    concurrency: usize,
    pace: Pace,
) -> Result<Sample> {
    let mut connections = Vec::with_capacity(concurrency);
    // Connect sequentially: concurrent handshakes are not measured.
    for _ in 0..concurrency {
        connections.push(AgentConnection::open(&running.endpoint, era, workload).await?);
    }
    ask(&mut connections, pace.warm_up).await?;
    running.processes.reset_peak();
    let (before, own_before, begun) = (running.processes.usage()?, process::own_cpu(), Instant::now());
    let times = ask(&mut connections, pace.measured).await?;
    let elapsed = begun.elapsed().as_secs_f64();
    let (after, own_after) = (running.processes.usage()?, process::own_cpu());
    ensure!(!times.is_empty(), "no call was answered");
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let thousands = times.len() as f64 / 1e3;
    Ok(Sample {
        calls: times.len(),
        calls_per_second: times.len() as f64 / elapsed,
        p50_ms: ms(times.value_at_quantile(0.5)),
        p99_ms: ms(times.value_at_quantile(0.99)),
        max_ms: ms(times.max()),
        cpu_s_per_1000: after.cpu.saturating_sub(before.cpu).as_secs_f64() / thousands,
        client_cpu_s_per_1000: own_after.saturating_sub(own_before).as_secs_f64() / thousands,
        peak_rss_mb: after.peak as f64 / 1e6,
    })
}

/// All lanes call until the time is over; returns the duration of each call in nanoseconds.
pub(crate) async fn ask(connections: &mut [AgentConnection], time: Duration) -> Result<Histogram<u64>> {
    let deadline = Instant::now() + time;
    let asking = try_join_all(connections.iter_mut().map(|agent| ask_in(agent, deadline)));
    let each = tokio::time::timeout(time + TIMEOUT, asking).await.context("calls are not answered")??;
    let mut all = histogram()?;
    for times in each {
        all.add(times).context("histograms of one kind")?;
    }
    Ok(all)
}

async fn ask_in(agent: &mut AgentConnection, deadline: Instant) -> Result<Histogram<u64>> {
    let mut times = histogram()?;
    let mut begun = Instant::now();
    while begun < deadline {
        agent.call().await?;
        let done = Instant::now();
        times.saturating_record(u64::try_from((done - begun).as_nanos()).unwrap_or(u64::MAX));
        begun = done;
    }
    Ok(times)
}

/// The durations of this many calls in sequence, in nanoseconds.
pub(crate) async fn sequential(
    calls: usize,
    mut call: impl AsyncFnMut() -> Result<()>,
) -> Result<Histogram<u64>> {
    let mut times = histogram()?;
    for _ in 0..calls {
        let begun = Instant::now();
        call().await?;
        times.saturating_record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(times)
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_max(60_000_000_000, 3).context("a histogram")
}
