//! Program output as text, complete or truncated, during a run and after its end.

mod captured;
mod live;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use captured::{Captured, Excerpt};
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
