//! An MCP server for testing clients and gateways; see the module `fixture` of the library.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Parser};
use plexus_testkit::fixture::{Eras, Fixture, Misbehavior, Scripted};

/// An MCP server with everything that the official conformance suite requires
#[derive(Debug, Parser)]
#[command(name = "plexus-fixture-server", version, group(ArgGroup::new("transport").required(true)))]
struct Arguments {
    /// Communicate over standard input and output
    #[arg(long, group = "transport")]
    stdio: bool,
    /// Listen on this address, port 0 for a free one, and print the URL
    #[arg(long, value_name = "ADDRESS", group = "transport")]
    listen: Option<SocketAddr>,
    /// Listen with the HTTP+SSE transport of 2024-11-05
    #[arg(long, value_name = "ADDRESS", group = "transport")]
    sse: Option<SocketAddr>,
    /// Misbehave in one way: crash-at-start, crash-after=CALLS, hang-at-start, hang-on-calls, garbage,
    /// flood=PER_SECOND (of list_changed), huge=BYTES, slow-start=MS
    #[arg(long, value_name = "HOW", requires = "stdio")]
    misbehave: Option<Misbehavior>,
    /// Report the tools listed in this file, which may change: {"lists": [[…], …], "instructions": …}
    #[arg(long, value_name = "FILE", requires = "stdio", conflicts_with = "misbehave")]
    script: Option<PathBuf>,
    /// Supported revisions: both, those with sessions (up to 2025-11-25, or up to the named one), or the stateless
    /// ones (from 2026-07-28)
    #[arg(long, default_value = "both")]
    eras: Eras,
    /// Count the runs of `count_runs` in this file, which several servers may share
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let fixture = Fixture::new().only(arguments.eras).that_may_crash().with_ledger(arguments.ledger);
    let ended = |served: std::io::Result<()>| served.map_err(|e| format!("standard input or output: {e}"));
    let served = match (arguments.listen, arguments.sse, arguments.misbehave, arguments.script) {
        (Some(address), ..) => listen(&fixture, address).await,
        (_, Some(address), ..) => listen_sse(&fixture, address).await,
        (.., Some(unruly), _) => ended(unruly.serve(std::io::stdin().lock(), std::io::stdout())),
        (.., Some(script)) => {
            ended(Scripted::new(script).serve(std::io::stdin().lock(), std::io::stdout().lock()))
        }
        _ => fixture.serve_stdio().await.map_err(|e| e.to_string()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "plexus-fixture-server: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn listen(fixture: &Fixture, address: SocketAddr) -> Result<(), String> {
    let server = fixture.listen(address).await.map_err(|e| format!("cannot listen on {address}: {e}"))?;
    writeln!(std::io::stdout(), "{}", server.url()).map_err(|e| format!("standard output: {e}"))?;
    server.wait().await;
    Ok(())
}

async fn listen_sse(fixture: &Fixture, address: SocketAddr) -> Result<(), String> {
    let server = fixture.listen_sse(address).await.map_err(|e| format!("cannot listen on {address}: {e}"))?;
    writeln!(std::io::stdout(), "{}", server.url()).map_err(|e| format!("standard output: {e}"))?;
    server.wait().await;
    Ok(())
}
