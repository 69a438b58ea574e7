//! How a command ends: the exit codes, and an error that knows its code and what to do next.

use std::fmt;
use std::process::ExitCode;

use plexus_proto::ErrorCode;

/// Exit codes of every command; part of the contract with scripts, listed in `plexus --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Ok = 0,
    Failed = 1,
    /// The same code that clap uses.
    Usage = 2,
    /// A verification ran and found something.
    Problems = 3,
    Unreachable = 4,
    /// Not authenticated, or not allowed.
    Denied = 5,
    /// Somebody pressed Ctrl-C; what a shell reports for it.
    Interrupted = 130,
    /// Whoever read our output went away; what a shell reports for a process ended by SIGPIPE.
    OutputClosed = 141,
}

impl Exit {
    /// For programs that read why a command failed.
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

/// What a person is told when a command cannot do what it should.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// The hub's own word for it, where the hub refused.
    pub(crate) code: Option<ErrorCode>,
    /// What happened, to what.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: Option<String>,
    /// To find the fault in the hub's log.
    pub(crate) request_id: Option<String>,
    /// Whether the same request may succeed later.
    pub(crate) retryable: bool,
    /// Whether the hub may have acted on the request although no answer came.
    pub(crate) after_sending: bool,
    /// The command that the machine's owner may allow, where the hub refused the request only for it.
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

/// Standard output was closed by its reader; nothing is left to say, so nothing is said.
#[derive(Debug)]
pub(crate) struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for OutputClosed {}
