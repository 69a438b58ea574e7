//! What a tool gives back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Text for a model, and the same as data for a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    pub text: String,
    pub structured: Option<Value>,
}

impl ToolOutput {
    /// Text and data; data that cannot be JSON is left out, which only a broken `Serialize` causes.
    pub fn new(text: impl Into<String>, structured: &impl Serialize) -> Self {
        Self { text: text.into(), structured: serde_json::to_value(structured).ok() }
    }
}

/// Cuts the middle out of a text that is over `limit` bytes and says how much is gone.
pub(crate) fn bound_text(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let head = text.floor_char_boundary(limit / 10 * 7);
    let tail = text.ceil_char_boundary(text.len() - limit / 10 * 2);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}
