//! Idle proxies.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::json;

use super::Plan;
use super::site::Site;
use super::stdio_connection::StdioConnection;
use crate::process::ProcessTree;
use crate::wire::Era;
use crate::workload::{AgentConnection, Workload};

#[derive(Debug, Serialize)]
pub(super) struct Idle {
    pub(super) way: &'static str,
    pub(super) rss_mb: f64,
    /// The anonymous part, without the program's pages that all proxies share.
    pub(super) anonymous_mb: f64,
}

pub(super) async fn measure(site: &Site, plan: Plan) -> Result<Vec<Idle>> {
    let (start_over_stdio, input, output) = site.start_over_stdio("idle-stdio")?;
    let mut connection = StdioConnection::begin(Era::Session, input, output).await?;
    let tools = connection.call_method("tools/list", json!({})).await?;
    ensure!(tools["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "no tools: {tools}");
    let (listening, endpoint) = site.start_over_http("idle-http")?;
    let _lane = AgentConnection::open(&endpoint, Era::Session, Workload::ListTools(1)).await?;
    tokio::time::sleep(Duration::from_secs(plan.rest_seconds)).await;
    let measure_proxy = |way: &'static str, proxy: &ProcessTree| {
        let usage = proxy.own_usage()?;
        anyhow::Ok(Idle { way, rss_mb: usage.rss as f64 / 1e6, anonymous_mb: usage.anonymous as f64 / 1e6 })
    };
    Ok(vec![measure_proxy("stdio", &start_over_stdio)?, measure_proxy("HTTP", &listening)?])
}
