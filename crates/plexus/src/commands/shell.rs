//! `plexus shell`: opens a shell on another machine in this terminal.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::Invocation;
use crate::arguments;
use crate::console::escape::EscapeFilter;
use crate::console::{Console, JobEnd, RawMode, StdinReader, window_size};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::remote::Remote;

/// The login shell of the user that the node runs as.
const LOGIN: &str = r#"exec "${SHELL:-/bin/sh}" -l"#;
/// Time limit for the hangup signal to the remote shell.
const HANGUP_TIMEOUT: Duration = Duration::from_secs(5);

const AFTER_HELP: &str = "\
All keys are passed on, including Ctrl-C. As with ssh, ~. at the beginning of a line ends the shell,
and ~~ sends a single ~. If the hub restarts or the link is cut, plexus waits and continues; if the
node restarts, the shell ends. The hub records neither input nor output.

The token needs call:terminal, call:console and node:NODE.

Example:
  plexus shell nas";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ShellArgs {
    /// Machine: name, id, or label such as role=nas
    node: String,
    /// Folder to start in [default: the working folder of the node]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// How long to wait for a hub or a node that becomes unreachable after the start
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "5m")]
    patience: u64,
}

pub(crate) async fn run(args: ShellArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let mut arguments = Map::new();
    arguments.insert("command".to_owned(), json!(LOGIN));
    if let Some(cwd) = &args.cwd {
        arguments.insert("cwd".to_owned(), json!(cwd));
    }
    let patience = Duration::from_secs(args.patience);
    run_in_terminal(invocation, &args.node, patience, arguments, Map::new(), output::raw_mode_note).await
}

/// Runs a command on a terminal of the node, connected to this terminal. If it is in a sandbox, calls `on_sandbox` with
/// what commands can write.
pub(crate) async fn run_in_terminal(
    invocation: &Invocation<'_>,
    node: &str,
    patience: Duration,
    mut arguments: Map<String, Value>,
    mut env: Map<String, Value>,
    on_sandbox: impl Fn(&str),
) -> anyhow::Result<ExitCode> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "standard input is not a terminal")
            .hint("to pipe input to a command, use `plexus exec NODE -- COMMAND`")
            .into());
    }
    arguments.insert("pty".to_owned(), json!(true));
    if let Some((cols, rows)) = window_size() {
        arguments.insert("cols".to_owned(), json!(cols));
        arguments.insert("rows".to_owned(), json!(rows));
    }
    let term = invocation.environment().get(plexus_kit::env::TERM);
    // The node's default: not set, because a policy may not allow any variables.
    if let Some(term) = term.filter(|term| *term != "xterm-256color") {
        env.entry("TERM").or_insert(json!(term));
    }
    arguments.insert("env".to_owned(), Value::Object(env));
    let remote = Remote::new(invocation.hub()?, node, patience).on_notice(output::raw_mode_note);
    let console = Console::start(remote, arguments).await?;
    let raw = RawMode::begin()?;
    let ended = tokio::select! {
        ended = console.follow(on_sandbox) => ended,
        escaped = forward_keys(&console) => match escaped {
            Ok(()) => {
                hang_up(&console).await;
                Ok(JobEnd { code: 0, note: Some("disconnected; the remote shell ends".to_owned()) })
            }
            Err(error) => Err(error),
        },
        failed = forward_window_size(&console) => Err(failed),
        terminated = termination() => match terminated {
            Ok(code) => {
                hang_up(&console).await;
                Ok(JobEnd { code, note: None })
            }
            Err(error) => Err(error),
        },
    };
    // Leave raw mode before anything is printed.
    drop(raw);
    let JobEnd { code, note } = ended?;
    if let Some(note) = note {
        output::warning(&note);
    }
    Ok(ExitCode::from(code))
}

/// Passes on all keys. Returns after the escape sequence `~.`.
async fn forward_keys(console: &Console) -> anyhow::Result<()> {
    let (mut keys, mut escapes) = (StdinReader::of_stdin()?, EscapeFilter::default());
    while let Some(typed) = keys.next().await {
        let (passed, is_escaped) = escapes.filter(&typed?);
        if !passed.is_empty() && !console.feed(&passed, false).await? {
            break;
        }
        if is_escaped {
            return Ok(());
        }
    }
    // Either the shell has ended, which `follow` reports, or this terminal was closed, which a signal reports.
    std::future::pending().await
}

/// Passes on changes of the window's size. Returns only on an error.
async fn forward_window_size(console: &Console) -> anyhow::Error {
    let forward = async {
        let mut changes = signal(SignalKind::window_change())?;
        while changes.recv().await.is_some() {
            if let Some(window) = window_size() {
                console.resize(window).await?;
            }
        }
        Ok::<(), anyhow::Error>(())
    };
    match forward.await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

/// Waits for SIGTERM or SIGHUP and returns the exit code for it.
async fn termination() -> anyhow::Result<u8> {
    let (mut terms, mut hangups) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    Ok(tokio::select! {
        _ = terms.recv() => 143,
        _ = hangups.recv() => 129,
    })
}

/// Sends a hangup signal to the remote shell.
async fn hang_up(console: &Console) {
    let _ = tokio::time::timeout(HANGUP_TIMEOUT, console.signal(Some("HUP"))).await;
}
