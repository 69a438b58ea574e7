//! The servers contained in this program, each in its own process like the contenders.
//!
//! They print their listening address as their only line.

mod echo;
mod hub;
mod pass_through;
mod sse;
mod web_socket;

use std::io::Write as _;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::serve::ListenerExt as _;
use clap::Subcommand;
use tokio::net::TcpListener;

/// The subcommand that runs one of the servers.
pub(crate) const COMMAND: &str = "serve";
/// The server behind the contenders, which is not counted with them.
pub(crate) const ECHO: &str = "echo";

#[derive(Debug, Subcommand)]
pub(crate) enum Server {
    /// An MCP server with an echo tool, and idle ones
    Echo {
        #[arg(long)]
        stdio: bool,
        /// Use the transport of 2024-11-05
        #[arg(long, conflicts_with = "stdio")]
        sse: bool,
        /// Support only revisions with sessions
        #[arg(long)]
        sessions: bool,
        #[arg(long, default_value_t = 0)]
        tools: usize,
    },
    /// axum with a connection pool: forwards every request and streams the answer back
    PassThrough { address: std::net::SocketAddr },
    /// A WebSocket echo server
    WebSocket,
    /// An in-process hub with idle tools; prints a token after its address
    Hub {
        #[arg(long)]
        tools: usize,
    },
}

/// Runs until it is killed.
#[tokio::main]
pub(crate) async fn run(server: Server) -> Result<()> {
    match server {
        Server::Echo { stdio: true, tools, .. } => echo::over_stdio(tools),
        Server::Echo { sse: true, tools, .. } => listen(sse::echo(tools)).await,
        Server::Echo { sessions, tools, .. } => listen(echo::over_http(tools, sessions)).await,
        Server::PassThrough { address } => listen(pass_through::router(address)).await,
        Server::WebSocket => listen(web_socket::echo()).await,
        Server::Hub { tools } => hub::run(tools).await,
    }
}

async fn listen(router: Router) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("a free port")?;
    print_address(&listener.local_addr()?.to_string())?;
    let listener = listener.tap_io(|stream| {
        // An error only makes the answers slower.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await.context("the server ended")
}

fn print_address(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("cannot write to standard output")
}
