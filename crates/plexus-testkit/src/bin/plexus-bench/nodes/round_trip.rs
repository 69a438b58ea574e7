//! To a node and back: a call that does nothing there, less a call that does nothing in the hub.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio_tungstenite::tungstenite::Message;

use super::site::Site;
use crate::process::Tree;
use crate::wire::Era;
use crate::workload::{Lane, Workload};

/// About as long as the frame of such a call.
const FRAME: usize = 400;

#[derive(Debug, Serialize)]
pub(super) struct RoundTrip {
    pub(super) transport: &'static str,
    /// Medians over all rounds, in microseconds.
    pub(super) echo_us: f64,
    pub(super) in_hub_us: f64,
    pub(super) on_node_us: f64,
}

impl RoundTrip {
    /// What the way to the node and back takes.
    pub(super) fn way_us(&self) -> f64 {
        self.on_node_us - self.in_hub_us
    }

    /// The same in times of a bare echo.
    pub(super) fn times_echo(&self) -> f64 {
        self.way_us() / self.echo_us
    }
}

/// Rounds that take turns, each of so many calls.
pub(super) async fn measure(
    site: &Site,
    transport: &'static str,
    rounds: usize,
    calls: usize,
) -> Result<RoundTrip> {
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let (_echo, address) = Tree::start_server(&["web-socket"], folder.path().join("echo.log"))?;
    let mut in_hub = Lane::open(&site.endpoint, Era::Stateless, Workload::InHub).await?;
    let mut on_node = Lane::open(&site.endpoint, Era::Stateless, Workload::OnNode).await?;
    let (mut echoes, mut hubs, mut nodes) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        echoes.push(echo(&address, calls).await?);
        hubs.push(timed(&mut in_hub, calls).await?);
        nodes.push(timed(&mut on_node, calls).await?);
    }
    Ok(RoundTrip { transport, echo_us: median(echoes), in_hub_us: median(hubs), on_node_us: median(nodes) })
}

async fn timed(lane: &mut Lane, calls: usize) -> Result<f64> {
    let mut times = histogram()?;
    for _ in 0..calls {
        let begun = Instant::now();
        lane.call().await?;
        times.record(micros(begun))?;
    }
    Ok(times.value_at_quantile(0.5) as f64)
}

async fn echo(address: &str, calls: usize) -> Result<f64> {
    let stream = tokio::net::TcpStream::connect(address).await.context("the echo server")?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await?;
    let text = "x".repeat(FRAME);
    let mut times = histogram()?;
    for _ in 0..calls {
        let begun = Instant::now();
        socket.send(Message::text(text.as_str())).await?;
        let said = socket.next().await.context("the echo server is gone")??;
        ensure!(said.to_text()? == text, "not what was said");
        times.record(micros(begun))?;
    }
    Ok(times.value_at_quantile(0.5) as f64)
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000, 3).context("a histogram")
}

fn micros(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
