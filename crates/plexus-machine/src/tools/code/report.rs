//! The output of `code_exec`: structured data for programs, and its text form for models.

use schemars::JsonSchema;
use serde::Serialize;

use super::collect::{Collected, CollectedFiles, LeftOut, OmittedReason};
use crate::policy::CodeLimits;
use crate::tools::output::{Excerpt, HeadAndTail, both_streams, on_a_new_line};
use crate::tools::terminal::jobs::signals;
use crate::warden::{Limit, Report};

/// The maximum size of an answer as JSON; a node sends at most 1 MiB.
const MAX_ANSWER: usize = 900 << 10;
const STDOUT: usize = 320 << 10;
const STDERR: usize = 160 << 10;
/// The number of bytes of each output stream and of a file that are shown to a model.
const STDOUT_SHOWN: usize = 48 << 10;
const STDERR_SHOWN: usize = 16 << 10;
const FILE_SHOWN: usize = 4 << 10;
/// The total for all files.
const FILES_SHOWN: usize = 16 << 10;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Null if a signal ended it.
    pub(super) exit_code: Option<i32>,
    /// The signal that ended it, such as `KILL`.
    pub(super) signal: Option<String>,
    pub(super) timed_out: bool,
    /// The limit it was killed for.
    limit: Option<Limit>,
    pub(super) duration_ms: u64,
    /// CPU time of all its processes.
    cpu_ms: u64,
    /// The highest memory use observed, in bytes; null if it ended before the first measurement.
    peak_memory: Option<u64>,
    /// Number of processes that it left in the background, which were killed.
    #[serde(skip_serializing_if = "is_zero")]
    left_running: u64,
    stdout: Excerpt,
    stderr: Excerpt,
    /// New and changed files, or the requested ones.
    files: Vec<Collected>,
    /// Files that were selected but are not returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files_left_out: Vec<LeftOut>,
    /// Number of further files that are not returned.
    #[serde(skip_serializing_if = "is_zero")]
    files_not_named: u64,
    /// Further remarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The size of a value as JSON.
pub(super) fn json_length(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |text| text.len())
}

/// As much of an output as fits into `max_bytes` bytes of JSON.
fn excerpt(retained: &HeadAndTail, max_bytes: usize) -> Excerpt {
    let mut limit = max_bytes;
    loop {
        let excerpt = Excerpt::within(retained, limit);
        if json_length(&excerpt) <= max_bytes || limit < 64 {
            return excerpt;
        }
        // Control characters and binary data take several times their size.
        limit /= 2;
    }
}

/// The result of a run without its files.
pub(super) struct RunResult<'r> {
    pub(super) report: &'r Report,
    pub(super) limits: &'r CodeLimits,
    pub(super) stdout: &'r HeadAndTail,
    pub(super) stderr: &'r HeadAndTail,
    pub(super) note: Option<String>,
}

impl Output {
    /// The output without files, and the remaining bytes of JSON for files.
    pub(super) fn of(ran: &RunResult<'_>) -> (Self, usize) {
        let report = ran.report;
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let output = Self {
            exit_code: report.exit_code,
            signal: report
                .signal
                .map(|signal| signals::name(signal).map_or_else(|| signal.to_string(), str::to_owned)),
            timed_out: report.limit == Some(Limit::Time),
            limit: report.limit,
            duration_ms: millis(report.duration),
            cpu_ms: millis(report.cpu),
            peak_memory: Some(report.memory).filter(|bytes| *bytes > 0),
            left_running: report.left,
            stdout: excerpt(ran.stdout, STDOUT),
            stderr: excerpt(ran.stderr, STDERR),
            files: Vec::new(),
            files_left_out: Vec::new(),
            files_not_named: 0,
            note: ran.note.clone(),
        };
        let remaining = MAX_ANSWER.saturating_sub(json_length(&output));
        (output, remaining)
    }

    pub(super) fn with_files(self, found: CollectedFiles) -> Self {
        let CollectedFiles { files, left_out, more } = found;
        Self { files, files_left_out: left_out, files_not_named: more, ..self }
    }

    /// The text form for models: the output first, then files, and the state last.
    pub(super) fn text(&self, ran: &RunResult<'_>) -> String {
        let stdout = Excerpt::within(ran.stdout, STDOUT_SHOWN).text;
        let stderr = Excerpt::within(ran.stderr, STDERR_SHOWN).text;
        let mut text = both_streams(Some(&stdout), Some(&stderr));
        let mut max_bytes = FILES_SHOWN;
        for file in &self.files {
            on_a_new_line(&mut text);
            text.push_str(&format!("[file {:?}, {} bytes", file.name, file.bytes));
            match &file.text {
                Some(content) if content.len() <= FILE_SHOWN.min(max_bytes) => {
                    max_bytes -= content.len();
                    text.push_str("]\n");
                    text.push_str(content);
                }
                _ => text.push_str("; its content is in the structured result]"),
            }
        }
        for file in &self.files_left_out {
            on_a_new_line(&mut text);
            let why = describe_reason(file.why);
            text.push_str(&format!("[file {:?}, {} bytes: not returned, {why}]", file.name, file.bytes));
        }
        if self.files_not_named > 0 {
            on_a_new_line(&mut text);
            text.push_str("[more files, which are not returned]");
        }
        on_a_new_line(&mut text);
        text.push_str(&format!("[{}]", self.describe_end(ran.limits)));
        text
    }

    fn describe_end(&self, limits: &CodeLimits) -> String {
        let seconds = self.duration_ms as f64 / 1_000.0;
        let mut words = match (self.limit, &self.signal, self.exit_code) {
            (Some(limit), ..) => {
                format!("killed after {seconds:.1} s by a limit: {}", describe_limit(limit, limits))
            }
            (None, Some(signal), _) => format!("ended by SIG{signal} after {seconds:.1} s"),
            (None, None, Some(code)) => format!("exit code {code} after {seconds:.1} s"),
            (None, None, None) => "ended".to_owned(),
        };
        if self.left_running > 0 {
            let count = self.left_running;
            words.push_str(&format!("; {count} processes that it left in the background were killed"));
        }
        if let Some(note) = &self.note {
            words.push_str("; ");
            words.push_str(note);
        }
        words
    }
}

fn describe_limit(limit: Limit, limits: &CodeLimits) -> String {
    match limit {
        Limit::Time => format!("time, {} s", limits.time.as_secs()),
        Limit::Cpu => format!("CPU time, {} s on this machine", limits.cpu.as_secs()),
        Limit::Memory => format!("memory, {} MiB on this machine", limits.memory >> 20),
        Limit::Processes => format!("concurrent processes, {} on this machine", limits.processes),
        Limit::FileSize => format!("file size, {} MiB on this machine", limits.file >> 20),
        Limit::Disk => {
            format!("files, {} MiB or {} files on this machine", limits.file >> 20, super::MAX_ENTRIES)
        }
        Limit::Output => format!("output, {} KiB on this machine", super::max_output(limits) >> 10),
    }
}

fn describe_reason(why: OmittedReason) -> &'static str {
    match why {
        OmittedReason::TooLarge => {
            "it does not fit into the answer; print a part of it, or write it to a folder outside"
        }
        OmittedReason::TooMany => "there are too many files; combine them into one",
        OmittedReason::Link => "it is a symlink, which is not followed",
        OmittedReason::Special => "it is a device, a pipe or a socket",
        OmittedReason::TooDeep => "it is nested too deeply",
        OmittedReason::Unreadable => "it cannot be read",
    }
}
