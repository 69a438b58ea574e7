//! What a job is and how it ended, as its folder says.
//!
//! | file | by whom | what |
//! |---|---|---|
//! | `job.json` | the node, before anything is started | what the job is |
//! | `born` | the keeper, before the command | which process leads the group |
//! | `stdin` | the node | a file with all there is to read, or a pipe for `write` |
//! | `stdout`, `stderr` | the command itself | what it wrote |
//! | `stdout.gap`, `stderr.gap` | the node | which bytes of it are not kept |
//! | `stopped` | the node, before it kills | why |
//! | `exit` | the keeper, or the node in its place | how it ended; counts when its line is complete |

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

/// What a job is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// For people: no more of it than fits into a list, and without what looks like a secret.
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) pty: bool,
    /// It ends with the call that waits for it.
    pub(crate) leashed: bool,
    pub(crate) started_at: Timestamp,
    /// When it is killed.
    pub(crate) until: Option<Timestamp>,
    /// Which time since the machine was started it belongs to.
    pub(crate) boot_id: String,
    /// Who started it.
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

/// Why the node has ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its time was up.
    Timeout,
    /// Somebody wanted it.
    Killed,
    /// Nobody waits for it any more.
    Cancelled,
    /// The node stopped, and with it the call that waited for it.
    Interrupted,
    /// It wrote more than the disk can be spared, and nothing of it can be given back.
    Output,
}

impl Why {
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
            tracing::warn!(%error, "it cannot be noted why a job is ended");
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With what a shell would say; above 128 a signal, or a program that says so.
    Code(i32),
    /// By a signal that also ended who would have said so.
    Signal(String),
    /// Nobody saw it.
    Unknown,
}

impl Exit {
    /// None as long as it is not written, all of it.
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
            tracing::warn!(%error, "it cannot be noted how a job ended");
        }
    }

    /// When it was written.
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
