//! The baselines: the echo server itself, and the bare pass-through in front of it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Running;
use crate::process::ProcessTree;
use crate::serve::{self, ECHO};
use crate::wire::Endpoint;

pub(super) fn direct(folder: &Path, tools: usize) -> Result<Running> {
    let (processes, address) = echo(folder, tools)?;
    Ok(Running { endpoint: endpoint(address), processes, mint: None, _echo_server: None })
}

pub(super) fn pass_through(folder: &Path, tools: usize) -> Result<Running> {
    let (echo_transport, address) = echo(folder, tools)?;
    let args = ["pass-through", &address.to_string()];
    let (processes, line) = ProcessTree::start_server(&args, folder.join("pass-through.log"))?;
    Ok(Running {
        endpoint: endpoint(parse(&line)?),
        processes,
        mint: None,
        _echo_server: Some(echo_transport),
    })
}

/// How a gateway reaches the echo server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EchoTransport {
    Http,
    /// HTTP, with a server that supports only revisions with sessions.
    HttpWithSessions,
    /// The transport of 2024-11-05.
    Sse,
    /// The gateway starts it.
    Stdio,
}

/// An echo server over HTTP with this many idle tools.
pub(super) fn echo(folder: &Path, tools: usize) -> Result<(ProcessTree, SocketAddr)> {
    listening(folder, tools, &[])
}

/// A listening echo server, and its address.
pub(super) fn listening(folder: &Path, tools: usize, more: &[&str]) -> Result<(ProcessTree, SocketAddr)> {
    let tools = tools.to_string();
    let args = [&[ECHO, "--tools", &tools], more].concat();
    let (tree, line) = ProcessTree::start_server(&args, folder.join("echo.log"))?;
    Ok((tree, parse(&line)?))
}

/// The command line of an echo server over stdio.
pub(super) fn over_stdio(tools: usize) -> Result<[String; 5]> {
    let me = std::env::current_exe().context("the path of this program")?.display().to_string();
    Ok([&me, serve::COMMAND, ECHO, "--stdio", &format!("--tools={tools}")].map(ToOwned::to_owned))
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint { address, path: "/mcp", token: None }
}

pub(super) fn parse(address: &str) -> Result<SocketAddr> {
    address.parse().with_context(|| format!("not an address: {address:?}"))
}
