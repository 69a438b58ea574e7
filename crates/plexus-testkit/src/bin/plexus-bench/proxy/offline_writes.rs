//! Writes while the hub is down, and their delivery after it returns.

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use plexus_store::outbox::{NewWrite, Outbox};
use serde::Serialize;
use serde_json::{Value, json};

use super::Plan;
use super::site::Site;
use super::stdio_connection::StdioConnection;
use crate::client::Connection;
use crate::wire::Era;

/// Time limit for the delivery of queued writes.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Polling interval for the remaining writes.
const POLL: Duration = Duration::from_millis(20);

/// Stored writes per second.
#[derive(Debug, Serialize)]
pub(super) struct WriteRates {
    /// Baseline: writing and syncing the same number of bytes to a file.
    pub(super) bare: f64,
    pub(super) outbox: f64,
    pub(super) http: f64,
    pub(super) stdio: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Replay {
    pub(super) rows: usize,
    pub(super) conversations: usize,
    /// From the hub being ready until the first delivery.
    pub(super) found_ms: f64,
    /// From the first to the last delivery.
    pub(super) seconds: f64,
    pub(super) rows_per_second: f64,
}

fn arguments(number: usize) -> Value {
    json!({ "action": "write", "section": "bench", "content": format!("write {number} of those that wait") })
}

fn row(number: usize, conversations: usize) -> NewWrite {
    NewWrite {
        key: uuid::Uuid::now_v7().to_string(),
        session: format!("talk-{}", number % conversations),
        client: json!({ "name": "plexus-bench", "version": "1" }).to_string(),
        tool: "scratchpad".to_owned(),
        params: json!({ "name": "scratchpad", "arguments": arguments(number) }).to_string(),
    }
}

/// How fast writes are stored. The hub is down afterwards.
pub(super) async fn store(site: &mut Site, plan: Plan) -> Result<WriteRates> {
    let (_listening, endpoint) = site.start_over_http("away-http")?;
    let mut connection = Connection::open(endpoint.address).await?;
    let request = endpoint.request(Era::Stateless, None, "tools/list", json!({}));
    let status = connection.exchange(&request).await?.status;
    ensure!(status == 200, "no tools: {status}");
    let (_talking, input, output) = site.start_over_stdio("away-stdio")?;
    let mut stdio_client = StdioConnection::begin(Era::Stateless, input, output).await?;
    stdio_client.call_method("tools/list", json!({})).await?;
    site.stop_hub().await?;
    let call = |number: usize| json!({ "name": "scratchpad", "arguments": arguments(number) });
    // The first write of each proxy detects that the hub is down.
    let mut begun = Instant::now();
    for number in 0..=plan.writes {
        let request = endpoint.request(Era::Stateless, None, "tools/call", call(number));
        let answer = connection.exchange(&request).await?;
        ensure!(is_queued(&serde_json::from_slice(answer.payload)?), "not queued: {}", answer.text());
        if number == 0 {
            begun = Instant::now();
        }
    }
    let http = per_second(plan.writes, begun);
    for number in 0..=plan.writes {
        let answer = stdio_client.call_method("tools/call", call(number)).await?;
        ensure!(is_queued(&answer), "not queued: {answer}");
        if number == 0 {
            begun = Instant::now();
        }
    }
    let stdio = per_second(plan.writes, begun);
    let outbox = site.bare_outbox().await?;
    begun = Instant::now();
    for number in 0..plan.writes {
        outbox.enqueue(row(number, 1)).await?;
    }
    let queued = per_second(plan.writes, begun);
    Ok(WriteRates { bare: bare(site, plan.writes)?, outbox: queued, http, stdio })
}

fn is_queued(answer: &Value) -> bool {
    answer["result"]["structuredContent"]["queued"] == true
}

fn per_second(count: usize, begun: Instant) -> f64 {
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Repeats a write and a sync, which is the minimum cost.
fn bare(site: &Site, writes: usize) -> Result<f64> {
    let mut file = File::create(site.bare_file()).context("a file")?;
    let line = vec![b'x'; row(0, 1).params.len() + 200];
    let begun = Instant::now();
    for _ in 0..writes {
        file.write_all(&line).and_then(|()| file.sync_data()).context("a file that is synced")?;
    }
    Ok(per_second(writes, begun))
}

/// How fast queued writes are delivered. The hub is down before and after.
pub(super) async fn replay(site: &mut Site, plan: Plan, conversations: usize) -> Result<Replay> {
    let agent = format!("replay-{conversations}");
    let (_proxy, input, output) = site.start_over_stdio(&agent)?;
    // The proxy answers once its outbox is open.
    let mut stdio_client = StdioConnection::begin(Era::Session, input, output).await?;
    stdio_client.call_method("tools/list", json!({})).await?;
    let outbox = site.outbox(&agent).await?;
    for number in 0..plan.rows {
        outbox.enqueue(row(number, conversations)).await?;
    }
    site.restart_hub().await?;
    let ready = Instant::now();
    let first = wait(&outbox, plan.rows as u64 - 1).await?;
    wait(&outbox, 0).await?;
    let seconds = first.elapsed().as_secs_f64();
    let counts = outbox.counts().await?;
    ensure!(counts.dead == 0, "{} could not be delivered", counts.dead);
    site.stop_hub().await?;
    Ok(Replay {
        rows: plan.rows,
        conversations,
        found_ms: first.duration_since(ready).as_secs_f64() * 1e3,
        seconds,
        rows_per_second: plan.rows as f64 / seconds,
    })
}

/// Waits until at most this many writes are queued; returns the time.
async fn wait(outbox: &Outbox, most: u64) -> Result<Instant> {
    let begun = Instant::now();
    while outbox.counts().await?.pending > most {
        ensure!(begun.elapsed() < TIMEOUT, "the queued writes were not delivered in time");
        tokio::time::sleep(POLL).await;
    }
    Ok(Instant::now())
}
