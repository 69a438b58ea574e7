//! Other gateways between an agent and an MCP server, installed by name at a pinned version.
//!
//! Each runs as its manual recommends for production, and logs only warnings. Unlike the hub, none checks a token
//! here and none records calls.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::baselines::EchoTransport;
use super::{Running, baselines};
use crate::process::ProcessTree;
use crate::wire::Endpoint;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");
/// Time limit for building or downloading a peer, once per machine.
const INSTALL: Duration = Duration::from_secs(30 * 60);
const FASTMCP: &str = include_str!("fastmcp_proxy.py");

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: &'static str,
    package: &'static str,
    version: &'static str,
    language: &'static str,
    pub(super) does: &'static str,
    /// The name of the echo tool behind it.
    pub(super) echo: &'static str,
    path: &'static str,
    /// The script that installs it, with its arguments.
    script: &'static [&'static str],
    /// How it reaches the server behind it.
    echo_transport: EchoTransport,
    /// The command that starts it.
    command: fn(&Start<'_>) -> Result<Command>,
}

/// Inputs of a command.
struct Start<'a> {
    /// The output of the install script.
    installed: &'a Path,
    folder: &'a Path,
    port: u16,
    /// URL of the server behind it, if it connects to one.
    url: String,
    /// Command line of the server behind it, if it starts one.
    server: [String; 5],
}

pub(super) const PEERS: [Peer; 4] = [
    Peer {
        name: "mcp-proxy-rs",
        package: "mcp-proxy",
        version: "0.6.0",
        language: "Rust",
        does: "aggregates servers; no token, no record as started here",
        echo: "echo/echo",
        path: "/",
        script: &["cargo-env", "mcp-proxy", "0.6.0"],
        echo_transport: EchoTransport::Http,
        command: rust_proxy,
    },
    Peer {
        name: "fastmcp",
        package: "fastmcp",
        version: "4.1.2",
        language: "Python",
        does: "opens a session with the server for each call; no token, no record as started here",
        echo: "echo",
        path: "/mcp",
        script: &["python-env", "fastmcp", "4.1.2"],
        echo_transport: EchoTransport::Http,
        command: fastmcp,
    },
    Peer {
        name: "mcp-proxy-py",
        package: "mcp-proxy",
        version: "0.13.0",
        language: "Python",
        does: "bridges HTTP to stdio; no record",
        echo: "echo",
        path: "/mcp",
        script: &["python-env", "mcp-proxy", "0.13.0"],
        echo_transport: EchoTransport::Stdio,
        command: python_proxy,
    },
    Peer {
        name: "mcp-proxy-js",
        package: "mcp-proxy",
        version: "6.7.19",
        language: "Node",
        does: "bridges HTTP to stdio; no record",
        echo: "echo",
        path: "/mcp",
        script: &["node-env", "mcp-proxy"],
        echo_transport: EchoTransport::Stdio,
        command: node_proxy,
    },
];

impl Peer {
    pub(super) fn label(&self) -> String {
        format!("{} {} ({})", self.package, self.version, self.language)
    }

    /// Installs it if necessary; returns the path printed by the script.
    pub(super) async fn install(&self) -> Result<PathBuf> {
        let [script, args @ ..] = self.script else { anyhow::bail!("no script") };
        let mut command = tokio::process::Command::new(Path::new(SCRIPTS).join(script));
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        let output =
            tokio::time::timeout(INSTALL, command.output()).await.context("installing takes too long")?;
        let output = output.with_context(|| format!("cannot run scripts/{script}"))?;
        let why = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", why.lines().next().unwrap_or("not installed"));
        Ok(String::from_utf8(output.stdout).context("a path")?.trim().into())
    }

    pub(super) async fn start(&self, folder: &Path, tools: usize) -> Result<Running> {
        let installed = self.install().await?;
        let echo_transport = match self.echo_transport {
            EchoTransport::Stdio => None,
            _ => Some(baselines::echo(folder, tools)?),
        };
        let port = free_port()?;
        let url =
            echo_transport.as_ref().map(|(_, address)| format!("http://{address}/mcp")).unwrap_or_default();
        let server = baselines::over_stdio(tools)?;
        let start = Start { installed: &installed, folder, port, url, server };
        let mut command = (self.command)(&start)?;
        command.env_clear().env("HOME", folder).env("NO_PROXY", "127.0.0.1").stdout(Stdio::null());
        command.env("PATH", format!("{}:/usr/bin:/bin", installed.join("bin").display()));
        let mut processes = ProcessTree::start(command, folder.join("peer.log"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        processes.wait_for("it listened", || TcpStream::connect(address).ok()).await?;
        let endpoint = Endpoint { address, path: self.path, token: None };
        Ok(Running { endpoint, processes, mint: None, _echo_server: echo_transport.map(|(tree, _)| tree) })
    }
}

fn rust_proxy(start: &Start<'_>) -> Result<Command> {
    let config = start.folder.join("proxy.toml");
    let (port, url) = (start.port, &start.url);
    let text = format!(
        "[proxy]\nname = \"proxy\"\nversion = \"1\"\nseparator = \"/\"\n\n\
         [proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\n\
         [[backends]]\nname = \"echo\"\ntransport = \"http\"\nurl = \"{url}\"\n\n\
         [observability]\nlog_level = \"warn\"\n"
    );
    std::fs::write(&config, text).with_context(|| config.display().to_string())?;
    let mut command = Command::new(start.installed.join("mcp-proxy"));
    command.arg("--config").arg(config);
    Ok(command)
}

fn fastmcp(start: &Start<'_>) -> Result<Command> {
    let script = start.folder.join("proxy.py");
    std::fs::write(&script, FASTMCP).with_context(|| script.display().to_string())?;
    let mut command = Command::new(start.installed);
    command.arg(script).arg(&start.url).arg(start.port.to_string());
    Ok(command)
}

fn python_proxy(start: &Start<'_>) -> Result<Command> {
    let mut command = Command::new(start.installed);
    let port = start.port.to_string();
    command.args(["-m", "mcp_proxy", "--log-level", "WARNING", "--host", "127.0.0.1", "--port", &port, "--"]);
    command.args(&start.server);
    Ok(command)
}

fn node_proxy(start: &Start<'_>) -> Result<Command> {
    let mut command = Command::new(start.installed.join("bin/mcp-proxy"));
    let port = start.port.to_string();
    command.args(["--host", "127.0.0.1", "--port", &port, "--server", "stream", "--"]);
    command.args(&start.server);
    Ok(command)
}

/// An unused port, for programs that cannot choose one.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a free port")?;
    Ok(listener.local_addr()?.port())
}
