//! The same calls over three paths to the hub, sequentially and alternating.

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::json;

use super::Plan;
use super::site::Site;
use super::stdio_connection::StdioConnection;
use crate::measure::sequential;
use crate::process::ProcessTree;
use crate::run::median;
use crate::wire::Era;
use crate::workload::{AgentConnection, Workload};

/// One kind of call; medians of the rounds.
#[derive(Debug, Serialize)]
pub(super) struct Calls {
    pub(super) era: Era,
    pub(super) call: &'static str,
    pub(super) direct: Times,
    pub(super) http: Times,
    pub(super) stdio: Times,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Times {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// A path to the hub through the proxy.
enum CallPath {
    Http { agent: AgentConnection, _proxy: Option<ProcessTree> },
    Stdio { connection: StdioConnection, request: String, workload: Workload, _proxy: ProcessTree },
}

impl CallPath {
    async fn stdio(site: &Site, era: Era, workload: Workload) -> Result<Self> {
        let (proxy, input, output) = site.start_over_stdio("stdio")?;
        let mut connection = StdioConnection::begin(era, input, output).await?;
        let item = json!({ "name": "todo", "arguments": { "action": "add", "text": "bench" } });
        connection.call_method("tools/call", item).await?;
        let request = connection.request(workload.method(), workload.params());
        Ok(Self::Stdio { connection, request, workload, _proxy: proxy })
    }

    async fn call(&mut self) -> Result<()> {
        match self {
            Self::Http { agent, .. } => agent.call().await,
            Self::Stdio { connection, request, workload, .. } => connection.call(request, *workload).await,
        }
    }

    /// Makes this many calls sequentially.
    async fn times(&mut self, calls: usize) -> Result<Times> {
        let times = sequential(calls, async || self.call().await).await?;
        let us = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Times { p50_us: us(0.5), p99_us: us(0.99) })
    }
}

pub(super) async fn measure(site: &Site, plan: Plan) -> Result<Vec<Calls>> {
    let mut all = Vec::new();
    for era in Era::ALL {
        for workload in [Workload::TodoList, Workload::TodoUpdate] {
            all.push(compare(site, plan, era, workload).await?);
        }
    }
    Ok(all)
}

async fn compare(site: &Site, plan: Plan, era: Era, workload: Workload) -> Result<Calls> {
    let (proxy, endpoint) = site.start_over_http("http")?;
    let direct_connection = AgentConnection::open(&site.endpoint, era, workload).await.context("straight")?;
    let over_http = AgentConnection::open(&endpoint, era, workload).await.context("over HTTP")?;
    let mut paths = [
        CallPath::Http { agent: direct_connection, _proxy: None },
        CallPath::Http { agent: over_http, _proxy: Some(proxy) },
        CallPath::stdio(site, era, workload).await.context("over stdio")?,
    ];
    let mut rounds: [Vec<Times>; 3] = Default::default();
    // The first round is a warm-up.
    for round in 0..=plan.rounds {
        for (path, rounds) in paths.iter_mut().zip(&mut rounds) {
            let times = path.times(plan.calls).await?;
            if round > 0 {
                rounds.push(times);
            }
        }
    }
    let [direct, http, stdio] = rounds.map(|rounds| {
        let median_of = |figure: fn(&Times) -> f64| median(rounds.iter().map(figure));
        Ok::<_, anyhow::Error>(Times {
            p50_us: median_of(|times| times.p50_us)?,
            p99_us: median_of(|times| times.p99_us)?,
        })
    });
    Ok(Calls { era, call: workload.name(), direct: direct?, http: http?, stdio: stdio? })
}
