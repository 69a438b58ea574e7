//! The cost of an open idle session.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use crate::client::Connection;
use crate::contenders::{Contender, Role, Running, Site};
use crate::wire::Endpoint;
use crate::workload::initialize;

/// Time limit for opening all sessions, and time for the memory to settle.
const TIMEOUT: Duration = Duration::from_secs(180);
const REST: Duration = Duration::from_secs(1);
/// The hub limits an agent to 128 streams, so sessions are spread over several agents.
const OF_ONE_AGENT: usize = 100;

#[derive(Debug, Serialize)]
pub(crate) struct IdleRow {
    pub(crate) contender: &'static str,
    pub(crate) label: String,
    pub(crate) sessions: usize,
    pub(crate) figures: Option<IdleFigures>,
    /// Why there are no figures.
    pub(crate) missing: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct IdleFigures {
    pub(crate) rss_before_mb: f64,
    pub(crate) rss_after_mb: f64,
    pub(crate) kb_per_session: f64,
}

/// Opens this many sessions of 2025-11-25, each with its stream, and holds them open.
pub(crate) async fn measure(contender: &Contender, site: &Site, sessions: usize) -> Result<IdleRow> {
    let measured = async {
        let running = contender.start(site, 0).await?;
        tokio::time::timeout(TIMEOUT, hold(&running, sessions))
            .await
            .context("opening them takes too long")?
    };
    let (figures, missing) = match measured.await {
        Ok(figures) => (Some(figures), None),
        Err(error) if contender.role == Role::Peer => (None, Some(format!("{error:#}"))),
        Err(error) => return Err(error.context(format!("{}, idle sessions", contender.label))),
    };
    if let Some(why) = &missing {
        eprintln!("  {}: {why}", contender.label);
    }
    Ok(IdleRow { contender: contender.name, label: contender.label.clone(), sessions, figures, missing })
}

async fn hold(running: &Running, sessions: usize) -> Result<IdleFigures> {
    // One session to warm up one-time allocations.
    let mut endpoint = running.endpoint.clone();
    let _first = open(&endpoint).await?;
    tokio::time::sleep(REST).await;
    let before = running.processes.usage()?.rss as f64;
    let mut held = Vec::with_capacity(sessions);
    for number in 0..sessions {
        if let Some(mint) = running.mint.as_ref().filter(|_| number % OF_ONE_AGENT == 0) {
            endpoint.token = Some(mint.token(&format!("bench-{number}"))?);
        }
        held.push(open(&endpoint).await.with_context(|| format!("session {}", number + 1))?);
    }
    tokio::time::sleep(REST).await;
    let after = running.processes.usage()?.rss as f64;
    Ok(IdleFigures {
        rss_before_mb: before / 1e6,
        rss_after_mb: after / 1e6,
        kb_per_session: (after - before) / 1e3 / sessions.max(1) as f64,
    })
}

async fn open(endpoint: &Endpoint) -> Result<Connection> {
    let mut connection = Connection::open(endpoint.address).await?;
    let session = initialize(&mut connection, endpoint).await?.context("it gives no session id")?;
    let status = connection.open_stream(&endpoint.stream(&session)).await?;
    ensure!(status == 200, "the stream of a session is refused with {status}");
    Ok(connection)
}
