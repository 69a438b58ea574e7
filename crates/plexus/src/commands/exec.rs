//! `plexus exec`: one command on another machine, as if it ran here.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::{Invocation, shell};
use crate::arguments;
use crate::console::{Console, Ended, Keys};
use crate::failure::{Exit, Failure};
use crate::remote::Remote;

const AFTER_HELP: &str = "\
The command is run without a shell; for what a shell does, run one: sh -c 'ls *.log | wc -l'.

Its output comes as it is written. Its standard input is ours, unless that is a terminal.
Ctrl-C and SIGTERM go to it. Its exit code is ours: 128 and the number of the signal that ended
it, 124 when its time was up. A hub that restarts and a link that is cut are waited for. Should
plexus itself be killed, the command goes on.

The token needs call:terminal, call:console and node:NODE.

Example:
  plexus exec nas -- df -h /srv
  tar c photos | plexus exec nas -- tar x -C /srv
  plexus exec nas --detach -- make world";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExecArgs {
    /// The machine: name, id, or label such as role=nas
    node: String,
    /// Folder to run in [default: the working folder there]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// A variable for the command; may be repeated
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Give it a terminal, for programs that want one
    #[arg(short, long)]
    tty: bool,
    /// Print the id of the job and leave it running
    #[arg(short, long, conflicts_with = "tty")]
    detach: bool,
    /// End the command after this time
    #[arg(long, value_name = "TIME", value_parser = arguments::ttl)]
    timeout: Option<u64>,
    /// How long to wait for a hub or a node that went away
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "5m")]
    patience: u64,
    /// The command and its arguments
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
        return shell::on_a_terminal(invocation, &args.node, patience, arguments, env).await;
    }
    arguments.insert("env".to_owned(), Value::Object(env));
    // Nobody types at a command without a terminal.
    let fed = !args.detach && !interactive;
    if !fed {
        arguments.insert("stdin".to_owned(), json!(""));
    }
    let remote = Remote::new(invocation.hub()?, &args.node, patience).telling(crate::output::warning);
    let console = Console::start(remote, arguments).await?;
    if args.detach {
        match invocation.out.json() {
            true => invocation.out.json_line(&json!({ "job": console.job() }).to_string())?,
            false => invocation.out.line(console.job())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Ended { code, note } = tokio::select! {
        ended = console.follow() => ended?,
        failed = input(&console, fed) => return Err(failed),
        failed = signals(&console) => return Err(failed),
    };
    if let Some(note) = note {
        crate::output::warning(&note);
    }
    Ok(ExitCode::from(code))
}

/// Passes our input on. Ends only if that fails.
async fn input(console: &Console, fed: bool) -> anyhow::Error {
    let pass = async {
        if fed {
            let mut keys = Keys::of_stdin()?;
            while let Some(bytes) = keys.next().await {
                if !console.feed(&bytes?, false).await? {
                    // It reads no more, which is its own affair.
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

/// Passes signals on: a second one of the same kind ends the command by force, a third leaves it alone.
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
        Ok(()) => Failure::new(Exit::Interrupted, format!("job {} was left as it is", console.job()))
            .hint("it may be running still")
            .into(),
        Err(error) => error,
    }
}
