//! `plexus shell`: a shell on another machine, on the terminal that one sits at.

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
/// A closed window waits so long for the shell to hear of it.
const PARTING: Duration = Duration::from_secs(5);

const AFTER_HELP: &str = "\
Every key is passed on, Ctrl-C too. ~. at the beginning of a line leaves, as with ssh, and ends
the shell; ~~ is a single ~. A hub that restarts and a link that is cut are waited for; a node
that restarts ends the shell. What is typed and what is shown is in no record of the hub.

The token needs call:terminal, call:console and node:NODE.

Example:
  plexus shell nas";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ShellArgs {
    /// The machine: name, id, or label such as role=nas
    node: String,
    /// Folder to begin in [default: the working folder there]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// How long to wait for a hub or a node that went away
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
    on_a_terminal(invocation, &args.node, patience, arguments, Map::new()).await
}

/// Runs what `arguments` say on a terminal there which is this one.
pub(crate) async fn on_a_terminal(
    invocation: &Invocation<'_>,
    node: &str,
    patience: Duration,
    mut arguments: Map<String, Value>,
    mut env: Map<String, Value>,
) -> anyhow::Result<ExitCode> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "standard input is no terminal")
            .hint("run a command with `plexus exec NODE -- COMMAND`, which takes its input from a pipe")
            .into());
    }
    arguments.insert("pty".to_owned(), json!(true));
    if let Some((cols, rows)) = window_size() {
        arguments.insert("cols".to_owned(), json!(cols));
        arguments.insert("rows".to_owned(), json!(rows));
    }
    let kind = invocation.environment().get(plexus_kit::env::TERM);
    // What a terminal there is without a word: so nothing has to be set where a policy lets nobody set anything.
    if let Some(kind) = kind.filter(|kind| *kind != "xterm-256color") {
        env.entry("TERM").or_insert(json!(kind));
    }
    arguments.insert("env".to_owned(), Value::Object(env));
    let remote = Remote::new(invocation.hub()?, node, patience).on_notice(output::raw_mode_note);
    let console = Console::start(remote, arguments).await?;
    let raw = RawMode::begin()?;
    let ended = tokio::select! {
        ended = console.follow() => ended,
        left = keys(&console) => match left {
            Ok(()) => {
                hang_up(&console).await;
                Ok(JobEnd { code: 0, note: Some("the shell was left, and ends".to_owned()) })
            }
            Err(error) => Err(error),
        },
        failed = windows(&console) => Err(failed),
        gone = gone() => match gone {
            Ok(code) => {
                hang_up(&console).await;
                Ok(JobEnd { code, note: None })
            }
            Err(error) => Err(error),
        },
    };
    // Before anything is said.
    drop(raw);
    let JobEnd { code, note } = ended?;
    if let Some(note) = note {
        output::warning(&note);
    }
    Ok(ExitCode::from(code))
}

/// Passes every key on, until somebody leaves.
async fn keys(console: &Console) -> anyhow::Result<()> {
    let (mut keys, mut escapes) = (StdinReader::of_stdin()?, EscapeFilter::default());
    while let Some(typed) = keys.next().await {
        let (passed, leaves) = escapes.filter(&typed?);
        if !passed.is_empty() && !console.feed(&passed, false).await? {
            break;
        }
        if leaves {
            return Ok(());
        }
    }
    // It has ended, which is heard in a moment; or our terminal is gone, and a signal tells.
    std::future::pending().await
}

/// Tells when the window has another size. Ends only if that fails.
async fn windows(console: &Console) -> anyhow::Error {
    let tell = async {
        let mut changes = signal(SignalKind::window_change())?;
        while changes.recv().await.is_some() {
            if let Some(window) = window_size() {
                console.resize(window).await?;
            }
        }
        Ok::<(), anyhow::Error>(())
    };
    match tell.await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

/// The window was closed, or somebody ends this program: what it is to end with.
async fn gone() -> anyhow::Result<u8> {
    let (mut terms, mut hangups) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    Ok(tokio::select! {
        _ = terms.recv() => 143,
        _ = hangups.recv() => 129,
    })
}

/// Nobody looks at it any more.
async fn hang_up(console: &Console) {
    let _ = tokio::time::timeout(PARTING, console.signal(Some("HUP"))).await;
}
