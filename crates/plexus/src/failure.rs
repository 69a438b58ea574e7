//! Exit codes, and the error type of commands: a message, a hint and an exit code.

use std::fmt;
use std::process::ExitCode;

use plexus_proto::ErrorCode;

/// The exit codes of all commands. Scripts rely on them; `plexus --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Ok = 0,
    Failed = 1,
    /// The same code that clap uses.
    Usage = 2,
    /// A verification found problems.
    Problems = 3,
    Unreachable = 4,
    /// Not authenticated, or not allowed.
    Denied = 5,
    /// Ctrl-C, with the exit code that a shell reports for SIGINT.
    Interrupted = 130,
    /// The reader of standard output is gone, with the exit code that a shell reports for SIGPIPE.
    OutputClosed = 141,
}

impl Exit {
    /// The error code in JSON output.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Problems => "problems",
            Self::Unreachable => "unreachable",
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
            Self::OutputClosed => "output_closed",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that is shown to the user.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// The hub's error code, if the hub refused the request.
    pub(crate) code: Option<ErrorCode>,
    /// What failed, and why.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: Option<String>,
    /// Identifies the request in the hub's log.
    pub(crate) request_id: Option<String>,
    /// Whether the same request may succeed later.
    pub(crate) retryable: bool,
    /// Whether the hub may have processed the request although no response arrived.
    pub(crate) after_sending: bool,
    /// The command that the machine's owner has to allow, if that is the only reason for the refusal.
    pub(crate) command: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: None,
            message: message.into(),
            hint: None,
            request_id: None,
            retryable: false,
            after_sending: false,
            command: None,
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The reader of standard output is gone. The command ends without a message.
#[derive(Debug)]
pub(crate) struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for OutputClosed {}
