//! What a caller of the terminal may say.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_tools::Alias;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::output::Stream;

/// How long `run` and `wait` take at most, if nothing is said.
pub(super) const DEFAULT_TIME: Duration = Duration::from_secs(120);
/// How long they can be told to take.
pub(super) const LONGEST: Duration = Duration::from_secs(86_400);
/// Bytes of a page, if nothing is said, and at most.
pub(super) const PAGE: u32 = 32 << 10;
pub(super) const MAX_PAGE: u32 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TerminalAction {
    /// Run a command and wait for its end: needs `command` or `argv`. It is killed after `timeout_seconds`.
    Run,
    /// Start a command in the background and return at once: needs `command` or `argv`.
    Start,
    /// Show the output of a job from `offset` on: needs `job`.
    Read,
    /// Write `text` to the standard input of a job: needs `job`.
    Write,
    /// Wait until a job ends, at most `timeout_seconds`: needs `job`.
    Wait,
    /// Send a signal to a job and all that it has started: needs `job`.
    Kill,
    /// Show the jobs of this machine, the newest first.
    List,
}

impl TerminalAction {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Start => "start",
            Self::Read => "read",
            Self::Write => "write",
            Self::Wait => "wait",
            Self::Kill => "kill",
            Self::List => "list",
        }
    }
}

/// As agents call them in tools of their own.
// None for `timeout_seconds`: elsewhere `timeout` is in milliseconds.
pub(super) const ALIASES: &[Alias] = &[
    Alias::new("command", &["cmd", "command_line", "script"]),
    Alias::new("cwd", &["working_directory", "workingDirectory", "working_dir", "workdir", "directory"]),
    Alias::new("env", &["environment"]),
    Alias::new("pty", &["tty"]),
    Alias::new("job", &["job_id", "id", "process_id", "bash_id", "shell_id"]),
    Alias::new("text", &["input", "content", "chars"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(super) action: TerminalAction,
    /// A line for the shell (`sh -c`). Either this or `argv`.
    #[schemars(length(min = 1))]
    pub(super) command: Option<String>,
    /// A program and its arguments, run without a shell.
    #[schemars(length(min = 1))]
    pub(super) argv: Option<Vec<String>>,
    /// Folder to run in: absolute, from `~/` on, or relative to the working folder; without it, the working folder.
    pub(super) cwd: Option<String>,
    /// Environment variables to add for this command.
    pub(super) env: Option<BTreeMap<String, String>>,
    /// Its whole standard input. Without it, `run` gives it none, and `start` keeps it open for `write`.
    pub(super) stdin: Option<String>,
    /// `run`: killed after this time (default 120). `wait`: answered after it (default 120). `start`: killed (default never).
    #[schemars(range(min = 1, max = 86_400))]
    pub(super) timeout_seconds: Option<u64>,
    /// Gives it a terminal, for programs that want one. Its standard error is in `stdout` then.
    pub(super) pty: Option<bool>,
    /// Columns of the terminal (default 120).
    #[schemars(range(min = 1, max = 1000))]
    pub(super) cols: Option<u16>,
    /// Rows of the terminal (default 40).
    #[schemars(range(min = 1, max = 1000))]
    pub(super) rows: Option<u16>,
    /// Id of a job, as `run`, `start` and `list` give it.
    pub(super) job: Option<String>,
    /// `read`: which of its outputs (default `stdout`).
    pub(super) stream: Option<Stream>,
    /// `read`: byte to begin at (default 0); below 0 counts from the end.
    pub(super) offset: Option<i64>,
    /// `read`: most bytes to show (default 32768).
    #[schemars(range(min = 64, max = 65_536))]
    pub(super) limit: Option<u32>,
    /// `write`: what to write; put "\n" at its end where the program reads lines.
    pub(super) text: Option<String>,
    /// `write`: ends the standard input after it.
    pub(super) eof: Option<bool>,
    /// `kill`: HUP, INT, QUIT, KILL, USR1, USR2, TERM, STOP, CONT or WINCH. Without it: TERM, and KILL if it does not end.
    pub(super) signal: Option<String>,
}
