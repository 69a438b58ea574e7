//! What the terminal answers: data for programs, and the same as text for models.

use plexus_proto::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::tools::output::{Stream, on_a_new_line};

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
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<Page>,
    /// Bytes that `write` has written. Less than there were: the program reads no more for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) written: Option<usize>,
    /// Of `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jobs: Option<Vec<Listed>>,
    /// Older jobs that have ended and are not in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_shown: Option<usize>,
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
    /// Why nothing more is known of its end, or what may have made it fail.
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

/// A part of an output: what `read` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page {
    pub(super) stream: Stream,
    /// `read`: first byte that is shown.
    pub(super) offset: u64,
    /// `read`: where to read on.
    pub(super) next_offset: u64,
    /// `read`: size of the whole, up to now.
    pub(super) bytes: u64,
    /// `read`: there is no more, and there will be none.
    pub(super) eof: bool,
    /// `read`: bytes before `offset` that are not kept, because the job wrote more than is kept of an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skipped: Option<u64>,
    /// `read`: what is no UTF-8 is replaced in it.
    pub(super) text: String,
    /// `read`: the bytes that are shown, where they are not UTF-8.
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

impl Output {
    /// The same for a model: what was written first, and how it ended last.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(stdout) = &self.stdout {
            text.push_str(&stdout.text);
        }
        if let Some(stderr) = self.stderr.as_ref().filter(|stderr| stderr.bytes > 0) {
            on_a_new_line(&mut text);
            text.push_str("[stderr]\n");
            text.push_str(&stderr.text);
        }
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
            text.push_str(&format!("[and {not_shown} older ones that have ended]\n"));
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
            text.push_str(&format!("[{skipped} bytes are not kept]\n"));
        }
        text.push_str(&self.text);
        on_a_new_line(text);
        text.push_str(&match (self.eof, self.next_offset < self.bytes) {
            (true, _) => "[end of output]\n".to_owned(),
            (false, true) => {
                format!(
                    "[{} of {} bytes; more from offset {}]\n",
                    self.next_offset, self.bytes, self.next_offset
                )
            }
            (false, false) => format!("[nothing more for now; read on from offset {}]\n", self.next_offset),
        });
    }
}

impl JobState {
    fn words(&self) -> String {
        let seconds = self.duration_ms as f64 / 1_000.0;
        let mut words = match (self.running, &self.signal, self.exit_code) {
            (true, ..) => format!("running for {seconds:.1} s"),
            (false, ..) if self.timed_out => format!("killed because its time was up, after {seconds:.1} s"),
            (false, Some(signal), _) => format!("ended by SIG{signal} after {seconds:.1} s"),
            (false, None, Some(code)) => format!("exit code {code} after {seconds:.1} s"),
            (false, None, None) => "ended".to_owned(),
        };
        if let Some(note) = &self.note {
            words.push_str("; ");
            words.push_str(note);
        }
        if self.left_running {
            words.push_str("; something that it started goes on in the background, action \"kill\" ends it");
        }
        words
    }
}
