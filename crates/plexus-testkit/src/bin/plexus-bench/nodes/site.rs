//! A hub, and a node that has joined it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use plexus_proto::api::{InviteNodeParams, JoinNodeParams, NodeCredential, NodeInvite};
use plexus_proto::node::{CallOutcome, CallResult, Frame, Output};
use serde_json::Value;

use crate::contenders;
use crate::process::ProcessTree;
use crate::wire::Endpoint;

/// Name of the node.
pub(crate) const NODE: &str = "nas";
/// Time limit for linking a node.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Site {
    pub(super) hub: ProcessTree,
    pub(super) node: Option<ProcessTree>,
    /// The hub's MCP endpoint, with an admin token.
    pub(super) endpoint: Endpoint,
    http: reqwest::Client,
}

impl Site {
    /// Starts a hub, and a node over the transport if one is given.
    pub(crate) async fn open(plexus: &Path, folder: &Path, transport: Option<&str>) -> Result<Self> {
        let (hub, endpoint) = contenders::up(plexus, &folder.join("hub")).await?;
        let http = reqwest::Client::builder().no_proxy().build().context("an HTTP client")?;
        let mut site = Self { hub, node: None, endpoint, http };
        if let Some(transport) = transport {
            site.node = Some(site.start_node(plexus, &folder.join("node"), transport).await?);
        }
        Ok(site)
    }

    async fn start_node(&self, plexus: &Path, home: &Path, transport: &str) -> Result<ProcessTree> {
        std::fs::create_dir_all(home).with_context(|| home.display().to_string())?;
        let invite = self.invite(NODE).await?;
        let hub = format!("http://{}", self.endpoint.address);
        let joined = contenders::command(plexus, home).args(["node", "join", &hub, &invite.code]).output();
        let joined = joined.context("plexus node join")?;
        ensure!(joined.status.success(), "the node cannot join: {}", String::from_utf8_lossy(&joined.stderr));
        let mut command: Command = contenders::command(plexus, home);
        command.args(["node", "run", "--transport", transport]).stdout(Stdio::null());
        let node = ProcessTree::start(command, home.join("node.log"))?;
        let begun = Instant::now();
        while self.get(&format!("/api/v1/nodes/{NODE}")).await?["state"] != "online" {
            ensure!(begun.elapsed() < TIMEOUT, "the node is not linked: {}", node.log_tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(node)
    }

    async fn invite(&self, name: &str) -> Result<NodeInvite> {
        let params =
            InviteNodeParams { name: name.to_owned(), labels: [].into(), ttl_seconds: None, rejoin: false };
        let request = self.http.post(self.url("/api/v1/nodes/invites")).json(&params);
        Ok(self.authorised(request).send().await?.error_for_status()?.json().await?)
    }

    /// The credential for a machine with this name.
    pub(super) async fn enrol(&self, name: &str) -> Result<NodeCredential> {
        let code = Some(self.invite(name).await?.code);
        let params = JoinNodeParams { code, key: None, name: None, labels: [].into() };
        let request = self.http.post(self.url("/api/v1/nodes/join")).json(&params);
        Ok(request.send().await?.error_for_status()?.json().await?)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        let request = self.http.get(self.url(path));
        Ok(self.authorised(request).send().await?.error_for_status()?.json().await?)
    }

    /// Number of calls to nodes so far, and their total round-trip seconds, as measured by the hub.
    pub(super) async fn node_calls(&self) -> Result<(f64, f64)> {
        let request = self.authorised(self.http.get(self.url("/metrics")));
        let text = request.send().await?.error_for_status()?.text().await?;
        let figure = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|figure| figure.trim().parse::<f64>().ok()).with_context(|| format!("no {name}"))
        };
        Ok((figure("plexus_node_call_seconds_count")?, figure("plexus_node_call_seconds_sum")?))
    }

    /// Calls a tool over REST.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Result<Value> {
        let request = self.http.post(self.url(&format!("/api/v1/tools/{tool}/call")));
        let request = request.json(&serde_json::json!({ "arguments": arguments }));
        let response = self.authorised(request).send().await?;
        let (status, body): (_, Value) = (response.status(), response.json().await?);
        ensure!(status.is_success() && body["success"] == true, "{tool}: {status} {body}");
        Ok(body)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.endpoint.address)
    }

    fn authorised(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        request.bearer_auth(self.endpoint.token.as_deref().unwrap_or_default())
    }
}

/// An idle node's answer to a frame: to a heartbeat, or to a test call.
pub(super) fn answer(frame: &Frame) -> Option<Frame> {
    match frame {
        Frame::Ping(ping) => Some(Frame::Pong(*ping)),
        Frame::Call(call) => {
            let outcome = CallOutcome::Output(Output { text: String::new(), structured: None });
            Some(Frame::Result(CallResult { call_id: call.call_id, outcome }))
        }
        _ => None,
    }
}
