//! `plexus exec`: runs a command on another machine as if it ran locally.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::{Invocation, shell};
use crate::arguments;
use crate::console::{Console, JobEnd, StdinReader};
use crate::failure::{Exit, Failure};
use crate::remote::Remote;

const AFTER_HELP: &str = "\
The command runs without a shell. For pipes and globs, run one: sh -c 'ls *.log | wc -l'.

Output is printed as it is written. Standard input is passed to the command unless it is a
terminal, and so are Ctrl-C and SIGTERM. The exit code is that of the command; 128 plus the number
of the signal that ended it; or 124 after a timeout. If the hub restarts or the link is cut, plexus
waits and continues. If plexus itself is killed, the command keeps running.

The token needs call:terminal, call:console and node:NODE.

Example:
  plexus exec nas -- df -h /srv
  tar c photos | plexus exec nas -- tar x
  plexus exec nas --detach -- make world";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExecArgs {
    /// Machine: name, id, or label such as role=nas
    node: String,
    /// Folder to run in [default: the working folder of the node]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Environment variable for the command (repeatable)
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Allocate a terminal, for programs that need one
    #[arg(short, long)]
    tty: bool,
    /// Run in the background and print the id of the job
    #[arg(short, long, conflicts_with = "tty")]
    detach: bool,
    /// Stop the command after this time
    #[arg(long, value_name = "TIME", value_parser = arguments::ttl)]
    timeout: Option<u64>,
    /// How long to wait for a hub or a node that becomes unreachable after the start
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "5m")]
    patience: u64,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

pub(crate) async fn run(args: ExecArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let patience = Duration::from_secs(args.patience);
    let mut arguments = Map::new();
    arguments.insert("argv".to_owned(), json!(args.command));
    let env: Map<String, Value> =
        args.variables.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    if let Some(cwd) = &args.cwd {
        arguments.insert("cwd".to_owned(), json!(cwd));
    }
    if let Some(seconds) = args.timeout {
        arguments.insert("timeout_seconds".to_owned(), json!(seconds));
    }
    let interactive = std::io::stdin().is_terminal();
    if args.tty {
        return shell::run_in_terminal(invocation, &args.node, patience, arguments, env, |_| {}).await;
    }
    arguments.insert("env".to_owned(), Value::Object(env));
    // Without --tty, input from a terminal is not passed on.
    let has_input = !args.detach && !interactive;
    if !has_input {
        arguments.insert("stdin".to_owned(), json!(""));
    }
    let remote = Remote::new(invocation.hub()?, &args.node, patience).on_notice(crate::output::warning);
    let console = Console::start(remote, arguments).await?;
    if args.detach {
        match invocation.out.json() {
            true => invocation.out.json_line(&json!({ "job": console.job() }).to_string())?,
            false => invocation.out.line(console.job())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let JobEnd { code, note } = tokio::select! {
        ended = console.follow(|_| {}) => ended?,
        failed = input(&console, has_input) => return Err(failed),
        failed = signals(&console) => return Err(failed),
    };
    if let Some(note) = note {
        crate::output::warning(&note);
    }
    Ok(ExitCode::from(code))
}

/// Passes standard input on. Returns only on an error.
async fn input(console: &Console, has_input: bool) -> anyhow::Error {
    let pass = async {
        if has_input {
            let mut keys = StdinReader::of_stdin()?;
            while let Some(bytes) = keys.next().await {
                if !console.feed(&bytes?, false).await? {
                    // The command has closed its input, which is not an error.
                    return Ok(());
                }
            }
            console.feed(&[], true).await?;
        }
        Ok::<(), anyhow::Error>(())
    };
    match pass.await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

/// Passes signals on. The first signal is sent to the command, the second kills it, and the third leaves it running.
async fn signals(console: &Console) -> anyhow::Error {
    let pass = async {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terms = signal(SignalKind::terminate())?;
        let mut hangups = signal(SignalKind::hangup())?;
        for round in 0.. {
            let name = tokio::select! {
                _ = interrupts.recv() => "INT",
                _ = terms.recv() => "TERM",
                _ = hangups.recv() => "HUP",
            };
            match round {
                0 => console.signal(Some(name)).await?,
                1 => console.signal(None).await?,
                _ => break,
            }
        }
        Ok::<(), anyhow::Error>(())
    };
    match pass.await {
        Ok(()) => {
            Failure::new(Exit::Interrupted, format!("interrupted; job {} was left as it is", console.job()))
                .hint("it may still be running")
                .into()
        }
        Err(error) => error,
    }
}
