//! The arguments and the output of `image_view`.

use plexus_tools::{Alias, CallError, arguments};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::NAME;
use super::picture::ShownImage;
use super::source::Source;

/// Argument names that agents know from their own tools.
pub(super) const ALIASES: &[Alias] = &[
    Alias::new("path", &["file_path", "filePath", "filename", "file", "image_path"]),
    Alias::new("url", &["image_url", "uri"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// A file on the machine: absolute, starting with `~/`, or relative to the working folder. Give either this or
    /// `url`.
    #[schemars(length(min = 1))]
    pub(super) path: Option<String>,
    /// The https or http URL of an image. The machine fetches it.
    #[schemars(length(min = 1, max = 8192))]
    pub(super) url: Option<String>,
    /// Maximum length of the longer edge in pixels (default 1568); larger images are scaled down.
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

/// An error about one argument.
pub(super) fn wrong(field: &str, message: &str) -> CallError {
    arguments::invalid(NAME, vec![json!({ "path": format!("/{field}"), "message": message })])
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Size in pixels, as shown.
    width: u32,
    height: u32,
    /// png, jpeg, webp or gif.
    format: &'static str,
    bytes: usize,
    /// Whether it is smaller than the original.
    scaled: bool,
    original: Original,
    /// The real path of the file, with symlinks resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Original {
    /// Size in pixels, with the orientation applied.
    width: u32,
    height: u32,
    format: &'static str,
    bytes: usize,
    /// Whether it has more frames than the one shown.
    animated: bool,
}

impl Output {
    pub(super) fn new(shown: &ShownImage, path: Option<String>) -> Self {
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
