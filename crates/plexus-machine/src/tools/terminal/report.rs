//! The output of `terminal`: structured data for programs, and its text form for models.

use plexus_proto::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::tools::output::{Stream, both_streams, end_of_command, on_a_new_line};

/// The output of any action; fields that do not apply are omitted.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<JobState>,
    /// The standard output; with `pty`, all output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stdout: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<Shown>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<Page>,
    /// Number of bytes written by `write`. If it is less than given, the program is not reading at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) written: Option<usize>,
    /// `list`: the jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jobs: Option<Vec<Listed>>,
    /// Number of older ended jobs that are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_shown: Option<usize>,
}

/// The current state of a job.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct JobState {
    /// Id, for `read`, `write`, `wait` and `kill`.
    pub(super) job: String,
    pub(super) running: bool,
    /// Null while the job runs, and if its exit status is unknown.
    pub(super) exit_code: Option<i32>,
    /// The signal that ended it, such as `TERM`. A shell reports it as an exit code above 128, and so may any program.
    pub(super) signal: Option<String>,
    /// It was killed because it timed out.
    pub(super) timed_out: bool,
    pub(super) duration_ms: u64,
    /// The job has ended, but processes that it started in the background are still running.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_running: bool,
    /// The reason its exit status is unknown, or a possible reason for its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

/// The beginning and the end of an output.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    /// The text; bytes that are not valid UTF-8 are replaced.
    pub(super) text: String,
    /// Total size.
    pub(super) bytes: u64,
    /// Some of the output is omitted.
    pub(super) truncated: bool,
    /// The omitted middle part, which `read` returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<LeftOut>,
    /// The bytes shown, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// The first omitted byte.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A part of an output, returned by `read`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page {
    pub(super) stream: Stream,
    /// `read`: the first byte shown.
    pub(super) offset: u64,
    /// `read`: the offset at which to continue.
    pub(super) next_offset: u64,
    /// `read`: total size so far.
    pub(super) bytes: u64,
    /// `read`: the job has ended and there is no more output.
    pub(super) eof: bool,
    /// `read`: bytes before `offset` that are no longer stored, because the job exceeded the limit for one output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skipped: Option<u64>,
    /// `read`: the text; bytes that are not valid UTF-8 are replaced.
    pub(super) text: String,
    /// `read`: the bytes shown, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

/// A job in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    #[serde(flatten)]
    pub(super) state: JobState,
    /// The command, possibly truncated.
    pub(super) command: String,
    pub(super) cwd: String,
    pub(super) pty: bool,
    #[schemars(with = "String")]
    pub(super) started_at: Timestamp,
    /// The principal that started it.
    pub(super) by: String,
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
}

impl Output {
    /// The text form for models: the output first, the state last.
    pub(super) fn text(&self) -> String {
        let mut text = both_streams(
            self.stdout.as_ref().map(|stdout| stdout.text.as_str()),
            self.stderr.as_ref().map(|stderr| stderr.text.as_str()),
        );
        if let Some(page) = &self.page {
            page.text(&mut text);
        }
        if let Some(written) = self.written {
            text.push_str(&format!("[{written} bytes written]\n"));
        }
        for listed in self.jobs.iter().flatten() {
            text.push_str(&format!("{}  {}  {}\n", listed.state.job, listed.state.words(), listed.command));
        }
        if let Some(not_shown) = self.not_shown {
            text.push_str(&format!("[{not_shown} older ended jobs are not listed]\n"));
        }
        if self.jobs.as_ref().is_some_and(Vec::is_empty) {
            text.push_str("There are no jobs.\n");
        }
        if let Some(state) = &self.state {
            on_a_new_line(&mut text);
            text.push_str(&format!("[job {}: {}]", state.job, state.words()));
        }
        text
    }
}

impl Page {
    fn text(&self, text: &mut String) {
        if let Some(skipped) = self.skipped {
            text.push_str(&format!("[{skipped} bytes are no longer stored]\n"));
        }
        text.push_str(&self.text);
        on_a_new_line(text);
        text.push_str(&match (self.eof, self.next_offset < self.bytes) {
            (true, _) => "[end of output]\n".to_owned(),
            (false, true) => {
                format!(
                    "[{} of {} bytes; continue at offset {}]\n",
                    self.next_offset, self.bytes, self.next_offset
                )
            }
            (false, false) => format!("[no more output for now; continue at offset {}]\n", self.next_offset),
        });
    }
}

impl JobState {
    fn words(&self) -> String {
        let mut words = match self.running {
            true => format!("running for {:.1} s", self.duration_ms as f64 / 1_000.0),
            false => end_of_command(self.timed_out, self.signal.as_deref(), self.exit_code, self.duration_ms)
                .unwrap_or_else(|| "ended".to_owned()),
        };
        if let Some(note) = &self.note {
            words.push_str("; ");
            words.push_str(note);
        }
        if self.left_running {
            words.push_str(
                "; processes that it started are still running in the background, action \"kill\" ends them",
            );
        }
        words
    }
}
