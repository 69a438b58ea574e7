//! The hub as its users run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::Running;
use super::baselines::{self, EchoTransport, parse};
use crate::process::ProcessTree;
use crate::wire::Endpoint;

/// Folder of the hub in the folder of the contender.
const DATA: &str = "data";
/// Name of the echo server's tool behind the hub.
pub(crate) const ECHO: &str = "mcp__echo__echo";

/// A hub on an empty database, and a token for agents.
pub(super) async fn native(plexus: &Path, folder: &Path) -> Result<Running> {
    let (processes, endpoint) = up(plexus, folder).await?;
    let mint = Mint { plexus: plexus.to_owned(), folder: folder.to_owned() };
    let endpoint = Endpoint { token: Some(mint.token("bench")?), ..endpoint };
    Ok(Running { endpoint, processes, mint: Some(mint), _echo_server: None })
}

/// Creates tokens for more agents of a hub.
#[derive(Debug)]
pub(crate) struct Mint {
    plexus: PathBuf,
    folder: PathBuf,
}

impl Mint {
    pub(crate) fn token(&self, name: &str) -> Result<String> {
        let output = command(&self.plexus, &self.folder)
            .args(["token", "create", "--kind", "agent", "--name", name, "--data-dir"])
            .arg(self.folder.join(DATA))
            .output()
            .context("plexus token create")?;
        ensure!(output.status.success(), "no token: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout).context("a token")?.trim().to_owned())
    }
}

/// A hub in front of an echo server, for the comparison with other gateways.
pub(super) async fn with_upstream(
    plexus: &Path,
    folder: &Path,
    echo_transport: EchoTransport,
    tools: usize,
) -> Result<Running> {
    let (echo_transport, server) = match echo_transport {
        EchoTransport::Stdio => {
            let [command, args @ ..] = baselines::over_stdio(tools)?;
            (None, json!({ "command": command, "args": args }))
        }
        EchoTransport::Http => listening(folder, tools, &[], "streamable_http", "/mcp")?,
        EchoTransport::HttpWithSessions => {
            listening(folder, tools, &["--sessions"], "streamable_http", "/mcp")?
        }
        EchoTransport::Sse => listening(folder, tools, &["--sse"], "sse", "/sse")?,
    };
    let servers = folder.join(DATA).join("mcp_servers.d");
    std::fs::create_dir_all(&servers).with_context(|| servers.display().to_string())?;
    std::fs::write(servers.join("echo.json"), server.to_string()).context("the file of the server")?;
    let mut running = Running { _echo_server: echo_transport, ..native(plexus, folder).await? };
    running
        .processes
        .wait_for("its server was ready", || {
            let mut show = command(plexus, folder);
            let shown =
                show.args(["upstream", "show", "echo", "--json", "--data-dir"]).arg(folder.join(DATA));
            let shown: Value = serde_json::from_slice(&shown.output().ok()?.stdout).ok()?;
            (shown["state"] == "ready").then_some(())
        })
        .await?;
    Ok(running)
}

/// A listening echo server, and its configuration for the hub.
fn listening(
    folder: &Path,
    tools: usize,
    more: &[&str],
    transport: &str,
    path: &str,
) -> Result<(Option<ProcessTree>, Value)> {
    let (tree, address) = baselines::listening(folder, tools, more)?;
    Ok((Some(tree), json!({ "transport": transport, "url": format!("http://{address}{path}") })))
}

/// The hub's own code with idle tools, without the program around it.
pub(super) fn with_tools(folder: &Path, tools: usize) -> Result<Running> {
    let args = ["hub", "--tools", &tools.to_string()];
    let (processes, line) = ProcessTree::start_server(&args, folder.join("hub.log"))?;
    let (address, token) = line.split_once(' ').context("the hub printed no token")?;
    let endpoint = Endpoint { address: parse(address)?, path: "/mcp", token: Some(token.to_owned()) };
    Ok(Running { endpoint, processes, mint: None, _echo_server: None })
}

/// How long a hub takes to become ready on an existing database, as the median of several starts, and its idle
/// memory after the last start.
pub(crate) async fn start_to_ready(plexus: &Path, folder: &Path, starts: usize) -> Result<(Duration, u64)> {
    up(plexus, folder).await?.0.stop().await?;
    let mut times = Vec::new();
    let mut at_rest = 0;
    for _ in 0..starts {
        let begun = Instant::now();
        let (processes, _) = up(plexus, folder).await?;
        times.push(begun.elapsed());
        at_rest = processes.usage()?.rss;
        processes.stop().await?;
    }
    times.sort();
    Ok((times.get(times.len() / 2).copied().unwrap_or_default(), at_rest))
}

/// Starts a hub; returns its MCP endpoint, with the admin token, when it is ready.
pub(crate) async fn up(plexus: &Path, folder: &Path) -> Result<(ProcessTree, Endpoint)> {
    up_at(plexus, folder, "127.0.0.1:0").await
}

/// The same on a given address.
pub(crate) async fn up_at(plexus: &Path, folder: &Path, address: &str) -> Result<(ProcessTree, Endpoint)> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let data = folder.join(DATA);
    let mut command = command(plexus, folder);
    command.args(["up", "--listen", address, "--data-dir"]).arg(&data).stdout(Stdio::null());
    let mut tree = ProcessTree::start(command, folder.join("hub.log"))?;
    let written_to = data.join("hub.json");
    let id = u64::from(tree.id());
    // The file is written when the hub is ready, and removed when it stops.
    let url = tree.wait_for("it was ready", || {
        let written: Value = serde_json::from_slice(&std::fs::read(&written_to).ok()?).ok()?;
        (written["pid"] == id).then(|| written["url"].as_str().map(ToOwned::to_owned))?
    });
    let address = parse(url.await?.trim_start_matches("http://"))?;
    let token = std::fs::read_to_string(data.join("admin-token")).context("the admin token")?;
    Ok((tree, Endpoint { address, path: "/mcp", token: Some(token.trim().to_owned()) }))
}

pub(crate) fn command(plexus: &Path, home: &Path) -> Command {
    let mut command = Command::new(plexus);
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").env("PLEXUS_LOG", "warn");
    command
}
