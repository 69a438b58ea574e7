//! What is asked for, and what is told about it.

use plexus_tools::{Alias, CallError, arguments};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::NAME;
use super::picture::Shown;
use super::source::Source;

/// As agents call them in tools of their own.
pub(super) const ALIASES: &[Alias] = &[
    Alias::new("path", &["file_path", "filePath", "filename", "file", "image_path"]),
    Alias::new("url", &["image_url", "uri"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// A file of the machine: a full path, one from `~/` on, or one relative to the working folder. Either this or `url`.
    #[schemars(length(min = 1))]
    pub(super) path: Option<String>,
    /// A picture on the web, with https or http. The machine fetches it.
    #[schemars(length(min = 1, max = 8192))]
    pub(super) url: Option<String>,
    /// Longest edge in pixels (default 1568); a larger picture is scaled down.
    #[schemars(range(min = 16, max = 8000))]
    pub(super) max_edge: Option<u32>,
}

impl Args {
    pub(super) fn source(self) -> Result<Source, CallError> {
        match (self.path, self.url) {
            (Some(path), None) => Ok(Source::Path(path)),
            (None, Some(url)) => Ok(Source::Url(url)),
            (None, None) => Err(wrong("path", "give `path` or `url`")),
            (Some(_), Some(_)) => Err(wrong("url", "give either `path` or `url`, not both")),
        }
    }
}

/// One thing that is wrong with the arguments.
pub(super) fn wrong(field: &str, message: &str) -> CallError {
    arguments::invalid(NAME, vec![json!({ "path": format!("/{field}"), "message": message })])
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// In pixels, of what is shown.
    width: u32,
    height: u32,
    /// png, jpeg, webp or gif.
    format: &'static str,
    bytes: usize,
    /// Whether it is smaller than the original.
    scaled: bool,
    original: Original,
    /// Where the file really is.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Original {
    /// In pixels, when it is upright.
    width: u32,
    height: u32,
    format: &'static str,
    bytes: usize,
    /// Whether there are more frames than the one that is shown.
    animated: bool,
}

impl Output {
    pub(super) fn new(shown: &Shown, path: Option<String>) -> Self {
        let original = &shown.original;
        Self {
            width: shown.width,
            height: shown.height,
            format: shown.format.name(),
            bytes: shown.bytes.len(),
            scaled: (shown.width, shown.height) != (original.width, original.height),
            original: Original {
                width: original.width,
                height: original.height,
                format: original.format.name(),
                bytes: original.bytes,
                animated: original.animated,
            },
            path,
        }
    }

    pub(super) fn text(&self) -> String {
        let Original { width, height, format, animated, .. } = self.original;
        let mut text = match &self.path {
            Some(path) => format!("{path}: {format}, {width} × {height} pixels"),
            None => format!("{format}, {width} × {height} pixels"),
        };
        if animated {
            text.push_str(", the first frame of an animation");
        }
        if self.scaled {
            text.push_str(&format!("; shown at {} × {}", self.width, self.height));
        }
        text
    }
}
