//! The output of a tool.

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Capabilities;

/// The result of a call that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolOutput {
    /// From a native tool: text for a model, and the same content as data for a program.
    Own { text: String, structured: Option<Value> },
    /// From another MCP server, unchanged; also from a native tool with content other than text, such as an image.
    Foreign(ForeignOutput),
    /// From another MCP server's prompt or resource: its unchanged result, an object.
    Passed(RawJson),
}

/// The parts of another server's result, each the JSON text that it sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignOutput {
    /// An array of content blocks.
    pub content: RawJson,
    pub structured: Option<RawJson>,
    /// The server reported that its tool failed.
    pub is_error: bool,
    /// Its `_meta`, an object.
    pub meta: Option<RawJson>,
    /// The capabilities that the caller lacked for a question during the call.
    #[serde(skip)]
    pub lacking: Option<Capabilities>,
}

impl ToolOutput {
    /// Text and data. Data that cannot be serialized as JSON is omitted; only a broken `Serialize` causes this.
    pub fn new(text: impl Into<String>, structured: &impl Serialize) -> Self {
        Self::Own { text: text.into(), structured: serde_json::to_value(structured).ok() }
    }

    /// The text; for another server's result, its text blocks.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Own { text, .. } => Cow::Borrowed(text),
            Self::Foreign(foreign) => Cow::Owned(foreign.text()),
            Self::Passed(result) => Cow::Borrowed(result.as_str()),
        }
    }

    /// The structured data, if any.
    #[must_use]
    pub fn structured(&self) -> Option<Cow<'_, Value>> {
        match self {
            Self::Own { structured, .. } => structured.as_ref().map(Cow::Borrowed),
            Self::Foreign(foreign) => {
                foreign.structured.as_ref().and_then(|json| json.parsed().ok()).map(Cow::Owned)
            }
            Self::Passed(result) => result.parsed().ok().map(Cow::Owned),
        }
    }

    /// Whether the tool itself reported a failure.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Foreign(ForeignOutput { is_error: true, .. }))
    }
}

impl ForeignOutput {
    fn text(&self) -> String {
        let blocks: Vec<Value> = self.content.parsed().ok().unwrap_or_default();
        let texts = blocks.iter().filter(|block| block["type"] == "text").filter_map(|b| b["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Validated JSON text that shares the buffer of the message it arrived in.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Bytes);

impl RawJson {
    /// A part of `message`; not copied if it lies inside its buffer.
    #[must_use]
    pub fn within(message: &Bytes, part: &RawValue) -> Self {
        let part = part.get().as_bytes();
        let (outer, inner) = (message.as_ptr_range(), part.as_ptr_range());
        if outer.contains(&inner.start) && inner.end <= outer.end {
            return Self(message.slice_ref(part));
        }
        Self(Bytes::copy_from_slice(part))
    }

    #[must_use]
    pub fn empty_array() -> Self {
        Self(Bytes::from_static(b"[]"))
    }

    /// The same text in its own buffer.
    #[must_use]
    pub fn of(part: &RawValue) -> Self {
        Self(Bytes::copy_from_slice(part.get().as_bytes()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        // The bytes come from a `str`; if they were invalid, return nothing rather than wrong text.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn parsed<'d, T: Deserialize<'d>>(&'d self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

impl std::fmt::Debug for RawJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Serialized as a string, so a stored result keeps its exact text. Within an untagged enum, raw JSON would be parsed
/// into a value, which reorders members and rounds large numbers.
impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let _: &RawValue = serde_json::from_str(&text).map_err(D::Error::custom)?;
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests;

/// The length of a value as JSON text, computed without building the text.
pub(crate) fn json_length(value: &Value) -> usize {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

/// Removes the middle of a text longer than `limit` bytes and states how many bytes were removed.
pub(crate) fn bound_text(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let head = text.floor_char_boundary(limit / 10 * 7);
    let tail = text.ceil_char_boundary(text.len() - limit / 10 * 2);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}
