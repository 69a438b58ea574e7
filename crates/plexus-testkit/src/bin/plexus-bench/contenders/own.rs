//! What everything is compared with: the echo server itself, and the bare pass-through in front of it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Running;
use crate::process::Tree;
use crate::serve::ECHO;
use crate::wire::Endpoint;

pub(super) fn direct(folder: &Path, tools: usize) -> Result<Running> {
    let (processes, address) = echo(folder, tools)?;
    Ok(Running { endpoint: endpoint(address), processes, mint: None, _behind: None })
}

pub(super) fn pass_through(folder: &Path, tools: usize) -> Result<Running> {
    let (behind, address) = echo(folder, tools)?;
    let args = ["pass-through", &address.to_string()];
    let (processes, line) = Tree::start_server(&args, folder.join("pass-through.log"))?;
    Ok(Running { endpoint: endpoint(parse(&line)?), processes, mint: None, _behind: Some(behind) })
}

/// An echo server over HTTP with so many idle tools.
pub(super) fn echo(folder: &Path, tools: usize) -> Result<(Tree, SocketAddr)> {
    let args = [ECHO, "--tools", &tools.to_string()];
    let (tree, line) = Tree::start_server(&args, folder.join("echo.log"))?;
    Ok((tree, parse(&line)?))
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint { address, path: "/mcp", token: None }
}

pub(super) fn parse(address: &str) -> Result<SocketAddr> {
    address.parse().with_context(|| format!("not an address: {address:?}"))
}
