//! What programs write: as text for who reads it, in full or in part, at the end and while they run.

mod captured;
mod live;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use captured::{Captured, Excerpt};
pub(super) use live::{Live, Source};
pub(super) use text::{Decoded, base64, rest_of_character, whole_characters};

/// One of the two that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// A text goes on at the beginning of a line.
pub(super) fn on_a_new_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
