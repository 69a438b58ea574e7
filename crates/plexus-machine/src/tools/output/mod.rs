//! Program output as text, complete or truncated, during a run and after its end.

mod captured;
mod head_and_tail;
mod live;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use captured::{Captured, Excerpt};
pub(super) use head_and_tail::HeadAndTail;
pub(super) use live::{Live, Source};
pub(super) use text::{Decoded, base64, rest_of_character, whole_characters};

/// An output stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Starts a new line unless the text is already at the beginning of one.
pub(super) fn on_a_new_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// The text form of both streams for models: stderr follows stdout under a heading of its own.
pub(super) fn both_streams(stdout: Option<&str>, stderr: Option<&str>) -> String {
    let mut text = stdout.unwrap_or_default().to_owned();
    if let Some(stderr) = stderr.filter(|stderr| !stderr.is_empty()) {
        on_a_new_line(&mut text);
        text.push_str("[stderr]\n");
        text.push_str(stderr);
    }
    text
}

/// How a command ended, for models; `None` if it reported neither a signal nor an exit code.
pub(super) fn end_of_command(
    timed_out: bool,
    signal: Option<&str>,
    exit_code: Option<i32>,
    duration_ms: u64,
) -> Option<String> {
    let seconds = duration_ms as f64 / 1_000.0;
    match (timed_out, signal, exit_code) {
        (true, ..) => Some(format!("killed by its timeout after {seconds:.1} s")),
        (false, Some(signal), _) => Some(format!("ended by SIG{signal} after {seconds:.1} s")),
        (false, None, Some(code)) => Some(format!("exit code {code} after {seconds:.1} s")),
        (false, None, None) => None,
    }
}
