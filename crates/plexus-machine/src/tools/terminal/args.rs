//! The arguments of `terminal`.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_tools::Alias;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::output::Stream;

/// The default timeout of `run` and `wait`.
pub(super) const DEFAULT_TIME: Duration = Duration::from_secs(120);
/// The maximum timeout.
pub(super) const MAX_TIME: Duration = Duration::from_secs(86_400);
/// The default and maximum number of bytes of a page.
pub(super) const PAGE: u32 = 32 << 10;
pub(super) const MAX_PAGE: u32 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TerminalAction {
    /// Run a command and wait for it to end: needs `command` or `argv`. It is killed after `timeout_seconds`.
    Run,
    /// Start a command in the background and return at once: needs `command` or `argv`.
    Start,
    /// Show the output of a job from `offset`: needs `job`.
    Read,
    /// Write `text` to the standard input of a job: needs `job`.
    Write,
    /// Wait until a job ends, at most `timeout_seconds`: needs `job`.
    Wait,
    /// Send a signal to a job and all processes it started: needs `job`.
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

/// Argument names that agents know from their own tools.
// There is none for `timeout_seconds`, because `timeout` is in milliseconds elsewhere.
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
    /// A shell command line (`sh -c`). Give either this or `argv`.
    #[schemars(length(min = 1))]
    pub(super) command: Option<String>,
    /// A program and its arguments, run without a shell.
    #[schemars(length(min = 1))]
    pub(super) argv: Option<Vec<String>>,
    /// Folder to run in: absolute, starting with `~/`, or relative to the working folder (default: the working folder).
    pub(super) cwd: Option<String>,
    /// Environment variables to add for this command.
    pub(super) env: Option<BTreeMap<String, String>>,
    /// The complete standard input. Without it, `run` provides no input, and `start` leaves the input open for `write`.
    pub(super) stdin: Option<String>,
    /// `run`: kill the command after this time (default 120). `wait`: return after this time (default 120). `start`:
    /// kill the job after this time (default never).
    #[schemars(range(min = 1, max = 86_400))]
    pub(super) timeout_seconds: Option<u64>,
    /// Run in a terminal, for programs that need one. Standard error is then part of `stdout`.
    pub(super) pty: Option<bool>,
    /// Columns of the terminal (default 120).
    #[schemars(range(min = 1, max = 1000))]
    pub(super) cols: Option<u16>,
    /// Rows of the terminal (default 40).
    #[schemars(range(min = 1, max = 1000))]
    pub(super) rows: Option<u16>,
    /// Id of a job, as returned by `run`, `start` and `list`.
    pub(super) job: Option<String>,
    /// `read`: the output stream (default `stdout`).
    pub(super) stream: Option<Stream>,
    /// `read`: byte to start at (default 0); a negative value counts from the end.
    pub(super) offset: Option<i64>,
    /// `read`: maximum number of bytes (default 32768).
    #[schemars(range(min = 64, max = 65_536))]
    pub(super) limit: Option<u32>,
    /// `write`: the text; end it with "\n" for programs that read lines.
    pub(super) text: Option<String>,
    /// `write`: close the standard input afterwards.
    pub(super) eof: Option<bool>,
    /// `kill`: HUP, INT, QUIT, KILL, USR1, USR2, TERM, STOP, CONT or WINCH. Default: TERM, then KILL if the job does
    /// not end.
    pub(super) signal: Option<String>,
}
