//! Round trip to a node: a call without effects, from the hub's sending it to the outcome.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Serialize;
use tokio_tungstenite::tungstenite::Message;

use super::site::Site;
use crate::measure::sequential;
use crate::process::ProcessTree;
use crate::run::median;
use crate::wire::Era;
use crate::workload::{AgentConnection, Workload};

/// Approximate size of the frame of such a call.
const FRAME: usize = 400;

#[derive(Debug, Serialize)]
pub(super) struct RoundTrip {
    pub(super) transport: &'static str,
    /// Median of the rounds' means, in microseconds.
    pub(super) echo_us: f64,
    /// The same, measured by the hub.
    pub(super) way_us: f64,
    /// Median of the rounds' median duration of such a call for an MCP client.
    pub(super) call_us: f64,
}

impl RoundTrip {
    /// The round trip as a multiple of a bare echo.
    pub(super) fn times_echo(&self) -> f64 {
        self.way_us / self.echo_us
    }
}

/// Alternating rounds with this many calls each.
pub(super) async fn measure(
    site: &Site,
    folder: &Path,
    transport: &'static str,
    rounds: usize,
    calls: usize,
) -> Result<RoundTrip> {
    let (_echo, address) = ProcessTree::start_server(&["web-socket"], folder.join("echo.log"))?;
    let mut agent = AgentConnection::open(&site.endpoint, Era::Stateless, Workload::OnNode).await?;
    let (mut echoes, mut one_way_times, mut call_times) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        echoes.push(echo(&address, calls).await?);
        let (count, seconds) = site.node_calls().await?;
        let times = sequential(calls, async || agent.call().await).await?;
        call_times.push(times.value_at_quantile(0.5) as f64 / 1e3);
        let (count, seconds) = {
            let (after, later) = site.node_calls().await?;
            (after - count, later - seconds)
        };
        ensure!(count >= calls as f64, "the hub has counted {count} of {calls} calls");
        one_way_times.push(seconds * 1e6 / count);
    }
    Ok(RoundTrip {
        transport,
        echo_us: median(echoes.into_iter())?,
        way_us: median(one_way_times.into_iter())?,
        call_us: median(call_times.into_iter())?,
    })
}

async fn echo(address: &str, calls: usize) -> Result<f64> {
    let stream = tokio::net::TcpStream::connect(address).await.context("the echo server")?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await?;
    let text = "x".repeat(FRAME);
    let mut all = Duration::ZERO;
    for _ in 0..calls {
        let begun = Instant::now();
        socket.send(Message::text(text.as_str())).await?;
        let reply = socket.next().await.context("the echo server is gone")??;
        all += begun.elapsed();
        ensure!(reply.to_text()? == text, "the echo differs from the message");
    }
    Ok(all.as_secs_f64() * 1e6 / calls as f64)
}
