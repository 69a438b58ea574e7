//! What the terminal answers: data for programs, and the same as text for models.

use plexus_proto::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::Stream;

/// The answer to any action; what does not belong to it is left out.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<JobState>,
    /// What it wrote; with a terminal, all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stdout: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<Shown>,
    /// Of `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<Page>,
    /// Bytes that `write` has written. Less than there were: the program reads no more for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) written: Option<usize>,
    /// Of `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jobs: Option<Vec<Listed>>,
}

/// A job, as it is now.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct JobState {
    /// Id, for `read`, `write`, `wait` and `kill`.
    pub(super) job: String,
    pub(super) running: bool,
    /// None while it runs, and where nobody saw how it ended.
    pub(super) exit_code: Option<i32>,
    /// That ended it, such as `TERM`. A shell says so with an exit code above 128, and so may any program.
    pub(super) signal: Option<String>,
    /// It was killed because its time was up.
    pub(super) timed_out: bool,
    pub(super) duration_ms: u64,
    /// It has ended, and something that it started in the background goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_running: bool,
    /// Why nothing more is known of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

/// The beginning and the end of an output.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    /// What is no UTF-8 is replaced in it.
    pub(super) text: String,
    /// Size of the whole.
    pub(super) bytes: u64,
    /// Some of it is left out.
    pub(super) truncated: bool,
    /// What is left out between the beginning and the end: to be had with `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<LeftOut>,
    /// The bytes that are shown, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// First byte that is left out.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A part of an output.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page {
    pub(super) stream: Stream,
    /// First byte that is shown.
    pub(super) offset: u64,
    /// Where to read on.
    pub(super) next_offset: u64,
    /// Size of the whole, up to now.
    pub(super) bytes: u64,
    /// There is no more, and there will be none.
    pub(super) eof: bool,
    /// Bytes before `offset` that are not kept: the job wrote more than is kept of an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skipped: Option<u64>,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

/// A job in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    #[serde(flatten)]
    pub(super) state: JobState,
    /// The command, or as much of it as fits.
    pub(super) command: String,
    pub(super) cwd: String,
    pub(super) pty: bool,
    #[schemars(with = "String")]
    pub(super) started_at: Timestamp,
    /// Who started it.
    pub(super) by: String,
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
}
