//! A hub that can be stopped and restarted, and proxies in front of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use plexus_kit::Clock;
use plexus_store::outbox::{Limits, Outbox};
use serde_json::Value;
use tokio::process::{ChildStdin, ChildStdout};

use crate::contenders;
use crate::process::ProcessTree;
use crate::wire::Endpoint;

/// The secret for clients of a proxy over HTTP.
const SECRET: &str = "a secret that is only for this run";

pub(super) struct Site {
    plexus: PathBuf,
    folder: PathBuf,
    hub: Option<ProcessTree>,
    /// The hub's own endpoint.
    pub(super) endpoint: Endpoint,
}

impl Site {
    pub(super) async fn open(plexus: &Path, folder: &Path) -> Result<Self> {
        let (hub, endpoint) = contenders::up(plexus, &folder.join("hub")).await?;
        Ok(Self { plexus: plexus.to_owned(), folder: folder.to_owned(), hub: Some(hub), endpoint })
    }

    /// Stops the hub.
    pub(super) async fn stop_hub(&mut self) -> Result<()> {
        match self.hub.take() {
            Some(hub) => hub.stop().await,
            None => Ok(()),
        }
    }

    /// Restarts it at the same address.
    pub(super) async fn restart_hub(&mut self) -> Result<()> {
        let (folder, address) = (self.folder.join("hub"), self.endpoint.address.to_string());
        self.hub = Some(contenders::up_at(&self.plexus, &folder, &address).await?.0);
        Ok(())
    }

    fn command(&self, agent: &str) -> Command {
        let mut command = contenders::command(&self.plexus, &self.folder);
        command
            .args(["mcp", "--json", "--agent", agent, "--data-dir"])
            .arg(self.data())
            .args(["--hub", &self.url()])
            .env("PLEXUS_TOKEN", self.endpoint.token.as_deref().unwrap_or_default());
        command
    }

    fn url(&self) -> String {
        format!("http://{}", self.endpoint.address)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("proxies")
    }

    fn log(&self, agent: &str) -> PathBuf {
        self.folder.join(format!("{agent}.log"))
    }

    /// A proxy over stdio.
    pub(super) fn start_over_stdio(&self, agent: &str) -> Result<(ProcessTree, ChildStdin, ChildStdout)> {
        ProcessTree::start_with_pipes(self.command(agent), self.log(agent))
    }

    /// A proxy on a port.
    pub(super) fn start_over_http(&self, agent: &str) -> Result<(ProcessTree, Endpoint)> {
        let mut command = self.command(agent);
        command.args(["--http", "127.0.0.1:0"]).env("PLEXUS_PROXY_SECRET", SECRET);
        let (tree, line) = ProcessTree::start_to_line(command, self.log(agent))?;
        let announcement: Value =
            serde_json::from_str(&line).with_context(|| format!("not where it is: {line}"))?;
        let url =
            announcement["url"].as_str().and_then(|url| url.strip_prefix("http://")?.strip_suffix("/mcp"));
        let address = url.with_context(|| format!("no address: {line}"))?.parse().context("an address")?;
        Ok((tree, Endpoint { address, path: "/mcp", token: Some(SECRET.to_owned()) }))
    }

    /// The outbox of an agent's proxies, opened by another process.
    pub(super) async fn outbox(&self, agent: &str) -> Result<Outbox> {
        let proxies = self.data().join(plexus_kit::config::PROXY_FOLDER);
        let belongs_to_agent = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(agent).is_some_and(|rest| rest.starts_with('-') && !rest[1..].contains('-'))
        };
        let mut folders = std::fs::read_dir(&proxies)?.flatten().map(|entry| entry.path());
        let folder = folders.find(belongs_to_agent).context("the proxy has no folder")?;
        open(&folder.join(plexus_proxy::OUTBOX_FILE)).await
    }

    /// A separate outbox without a proxy.
    pub(super) async fn bare_outbox(&self) -> Result<Outbox> {
        open(&self.folder.join("bare.db")).await
    }

    /// A file on the same disk.
    pub(super) fn bare_file(&self) -> PathBuf {
        self.folder.join("bare.txt")
    }
}

async fn open(path: &Path) -> Result<Outbox> {
    let opened = Outbox::open(path, Clock::system(), Limits::default()).await;
    Ok(opened.with_context(|| path.display().to_string())?.0)
}
