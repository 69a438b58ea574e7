//! A command with much output: memory use on both sides.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::json;

use super::site::{NODE, Site};

/// Number of bytes that the command writes.
const BYTES: u64 = 100_000_000;
/// Time for both to settle.
const REST: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
pub(super) struct Flood {
    pub(super) transport: &'static str,
    pub(super) seconds: f64,
    /// Size of the answer in bytes.
    pub(super) answer: usize,
    /// Peak above the idle memory, in megabytes.
    pub(super) hub_mb: f64,
    pub(super) node_mb: f64,
}

pub(super) async fn measure(site: &Site, transport: &'static str) -> Result<Flood> {
    let node = site.node.as_ref().context("no node")?;
    tokio::time::sleep(REST).await;
    let (hub_before, node_before) = (site.hub.own_usage()?.rss, node.own_usage()?.rss);
    site.hub.reset_peak();
    node.reset_peak();
    let command = format!("yes 'a line of what a build says while it is at work' | head -c {BYTES}");
    let arguments = json!({ "action": "run", "command": command, "node": NODE, "timeout_seconds": 100 });
    let begun = Instant::now();
    let answer = site.call("terminal", &arguments).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let answer_text = answer["structured"].to_string();
    ensure!(
        answer_text.contains(&BYTES.to_string()),
        "not all of it was counted: {}",
        &answer_text[..answer_text.len().min(500)]
    );
    let above = |peak: u64, before: u64| peak.saturating_sub(before) as f64 / 1e6;
    Ok(Flood {
        transport,
        seconds,
        answer: answer.to_string().len(),
        hub_mb: above(site.hub.own_usage()?.peak, hub_before),
        node_mb: above(node.own_usage()?.peak, node_before),
    })
}
