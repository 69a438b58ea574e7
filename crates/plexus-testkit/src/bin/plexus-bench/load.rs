//! Calls without measurements, for profiling the hub.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::contenders;
use crate::measure::ask;
use crate::wire::{Endpoint, Era};
use crate::workload::{AgentConnection, Workload};

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Address of the hub; a token for it is read from standard input
    address: SocketAddr,
    #[arg(long, value_enum)]
    call: Call,
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Call {
    TodoList,
    TodoUpdate,
    /// A tool of an echo server behind the hub with the name `echo`.
    Upstream,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(load: Load) -> Result<()> {
    let mut token = String::new();
    std::io::stdin().read_to_string(&mut token).context("a token on standard input")?;
    let endpoint = Endpoint { address: load.address, path: "/mcp", token: Some(token.trim().to_owned()) };
    let workload = match load.call {
        Call::TodoList => Workload::TodoList,
        Call::TodoUpdate => Workload::TodoUpdate,
        Call::Upstream => Workload::Echo(contenders::UPSTREAM_ECHO),
    };
    let mut connections = Vec::with_capacity(load.concurrency);
    for _ in 0..load.concurrency {
        connections.push(AgentConnection::open(&endpoint, Era::Session, workload).await?);
    }
    let times = ask(&mut connections, Duration::from_secs_f64(load.seconds)).await?;
    println!("{} calls, {:.0} a second", times.len(), times.len() as f64 / load.seconds);
    Ok(())
}
