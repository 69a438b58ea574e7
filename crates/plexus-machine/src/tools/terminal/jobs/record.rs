//! The record and the exit status of a job, stored in its folder.
//!
//! | file | written by | content |
//! |---|---|---|
//! | `job.json` | the node, before the start | the record |
//! | `born` | the keeper, before the command | the leader of the process group |
//! | `stdin` | the node | a file with the complete input, or a pipe for `write` |
//! | `stdout`, `stderr` | the command itself | its output |
//! | `stdout.gap`, `stderr.gap` | the node | the byte range that is no longer stored |
//! | `stopped` | the node, before it kills | the reason |
//! | `exit` | the keeper, or the node in its place | the exit status; valid once its line is complete |

use std::path::Path;

use fs_err as fs;
use plexus_kit::private_file;
use plexus_proto::{CallId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::signals;

const RECORD: &str = "job.json";
pub(super) const BORN: &str = "born";
pub(super) const STDIN: &str = "stdin";
const STOPPED: &str = "stopped";
const EXIT: &str = "exit";

/// The record of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// For display: truncated, and with likely secrets redacted.
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) pty: bool,
    /// The job ends with the call that waits for it.
    pub(crate) leashed: bool,
    pub(crate) started_at: Timestamp,
    /// When the job is killed.
    pub(crate) until: Option<Timestamp>,
    /// The boot id of the machine when the job was started.
    pub(crate) boot_id: String,
    /// The principal that started it.
    pub(crate) by: String,
    pub(crate) session_id: SessionId,
    pub(crate) call_id: CallId,
}

impl Record {
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
    }

    pub(super) fn write(&self, folder: &Path) -> std::io::Result<()> {
        private_file::write_unsynced(&folder.join(RECORD), &serde_json::to_vec(self)?)
    }
}

/// The reason the node ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It timed out.
    Timeout,
    /// A caller killed it.
    Killed,
    /// Its call was cancelled.
    Cancelled,
    /// The node stopped, and with it the call that waited for the job.
    Interrupted,
    /// Its output exceeded the limit, and the file system cannot release any of it.
    Output,
}

impl StopReason {
    const ALL: [Self; 5] = [Self::Timeout, Self::Killed, Self::Cancelled, Self::Interrupted, Self::Output];

    fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Killed => "killed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Output => "output",
        }
    }

    pub(super) fn read(folder: &Path) -> Option<Self> {
        let word = fs::read_to_string(folder.join(STOPPED)).ok()?;
        Self::ALL.into_iter().find(|why| why.word() == word.trim())
    }

    pub(super) fn write(self, folder: &Path) {
        if let Err(error) = private_file::write_unsynced(&folder.join(STOPPED), self.word().as_bytes()) {
            tracing::warn!(%error, "the reason for ending a job cannot be recorded");
        }
    }
}

/// The exit status of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The exit code as a shell reports it; above 128 a signal, or a program's own code.
    Code(i32),
    /// A signal that also ended the keeper, which would have reported the code.
    Signal(String),
    /// The exit was not observed.
    Unknown,
}

impl Exit {
    /// `None` until the file is written completely.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(EXIT)).ok()?;
        let line = text.strip_suffix('\n')?;
        Some(match line.split_once(' ') {
            Some(("signal", name)) => Self::Signal(name.to_owned()),
            _ => line.parse().map_or(Self::Unknown, Self::Code),
        })
    }

    pub(super) fn write(&self, folder: &Path) {
        let line = match self {
            Self::Code(code) => format!("{code}\n"),
            Self::Signal(name) => format!("signal {name}\n"),
            Self::Unknown => "unknown\n".to_owned(),
        };
        if let Err(error) = private_file::write_unsynced(&folder.join(EXIT), line.as_bytes()) {
            tracing::warn!(%error, "the exit status of a job cannot be recorded");
        }
    }

    /// When the exit status was written.
    pub(super) fn written_at(folder: &Path) -> Option<Timestamp> {
        Timestamp::try_from(fs::metadata(folder.join(EXIT)).ok()?.modified().ok()?).ok()
    }

    pub(crate) fn code(&self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(*code),
            Self::Signal(name) => signals::named(name).map(|signal| 128 + signal.as_raw()),
            Self::Unknown => None,
        }
    }

    pub(crate) fn signal(&self) -> Option<String> {
        match self {
            Self::Code(code) => signals::of_status(*code).map(str::to_owned),
            Self::Signal(name) => Some(name.clone()),
            Self::Unknown => None,
        }
    }
}
