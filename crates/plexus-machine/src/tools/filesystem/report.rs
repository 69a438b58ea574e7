//! The output of `filesystem`: structured data for programs, and its text form for models.

use plexus_proto::Timestamp;
use plexus_tools::ToolOutput;
use schemars::JsonSchema;
use serde::Serialize;

/// The output of any action; fields that do not apply are omitted.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The real path, with symlinks resolved.
    pub(super) path: String,
    /// `read`: the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Content>,
    /// `stat`, and `read` of a binary file: the metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) about: Option<About>,
    /// `list`, `tree` and `glob`: the entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entries: Option<Vec<Entry>>,
    /// `grep`: the files with matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<Vec<Matched>>,
    /// `list`, `tree`, `glob` and `grep`: the totals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<Total>,
    /// `write`, `edit`, `smart_edit`, `patch`, `copy`, `move`, `delete` and `mkdir`: the changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changes: Option<Vec<Change>>,
    /// `diff`, `edit`, `smart_edit` and `patch`: a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diff: Option<String>,
    /// `diff`: whether the contents are identical.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) same: Option<bool>,
    /// `hash`, and a file that was read or written as a whole: its SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    /// Further remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

/// A part of a file.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Content {
    /// The text; bytes that are not valid UTF-8 are replaced.
    pub(super) text: String,
    /// The bytes shown, if they are not valid UTF-8 or were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
    /// `utf-8`, `utf-16le`, `utf-16be` or `unknown`.
    pub(super) encoding: String,
    /// `lf`, `crlf`, `mixed` or `none`, of the part that was read.
    pub(super) line_ending: String,
    /// The file begins with a byte order mark, which is not part of `text`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) bom: bool,
    /// Size of the whole file.
    pub(super) bytes: u64,
    /// The first line shown, if lines were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_line: Option<u64>,
    /// Number of lines of the whole file, if all of it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<u64>,
    /// The first byte shown.
    pub(super) offset: u64,
    /// The `offset`, in the same unit, at which to continue; null at the end of the file.
    pub(super) next_offset: Option<u64>,
    /// Numbers of lines that are cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cut_lines: Vec<u64>,
}

/// The metadata of a path.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct About {
    /// `file`, `folder`, `link` or `special`.
    pub(super) kind: String,
    pub(super) bytes: u64,
    /// Bytes allocated on the disk; less than `bytes` for a sparse file.
    pub(super) on_disk: u64,
    /// Permissions, such as `0644`.
    pub(super) mode: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Number of hard links.
    pub(super) names: u64,
    #[schemars(with = "String")]
    pub(super) modified_at: Timestamp,
    /// The target, if the path is a symlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_to: Option<String>,
    /// The type of a file, detected from its first bytes, such as `utf-8 text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) looks_like: Option<String>,
    /// Whether the policy allows writing.
    pub(super) can_be_written: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// The path relative to the folder.
    pub(super) path: String,
    /// `file`, `folder`, `link` or `special`.
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(super) modified_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_to: Option<String>,
}

/// A file with matches.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Matched {
    /// The path relative to the folder.
    pub(super) path: String,
    /// Number of matching lines; with `show` `files`, only that there is at least one.
    pub(super) matches: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<MatchedLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MatchedLine {
    pub(super) line: u64,
    pub(super) text: String,
    /// The line does not match and is shown as context.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) context: bool,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Total {
    /// Number of entries, or of files with a match.
    pub(super) entries: u64,
    /// `grep`: matching lines in all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) matches: Option<u64>,
    /// `grep`: files that were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) searched: Option<u64>,
    /// Not all results are shown.
    pub(super) truncated: bool,
    /// Folders that could not be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) closed: Option<u64>,
}

/// A change of one path.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Change {
    pub(super) path: String,
    /// `created`, `changed`, `removed`, `renamed`, `copied`, `trashed` or `unchanged`.
    pub(super) what: &'static str,
    /// `move`, `copy` and `delete`: the previous path, or the path in the trash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) other: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    /// Number of replacements or hunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replaced: Option<usize>,
}

impl Change {
    pub(super) fn new(path: &std::path::Path, what: &'static str) -> Self {
        Self {
            path: path.display().to_string(),
            what,
            other: None,
            bytes: None,
            sha256: None,
            replaced: None,
        }
    }
}

/// An output with its text.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) output: Output,
}

impl Answer {
    pub(super) fn new(text: impl Into<String>, output: Output) -> Self {
        Self { text: text.into(), output }
    }

    pub(super) fn into_output(mut self) -> ToolOutput {
        for note in &self.output.notes {
            if !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push('\n');
            }
            self.text.push_str(&format!("[{note}]\n"));
        }
        ToolOutput::new(self.text, &self.output)
    }
}

/// Escapes control characters, so that a name stays on one line.
pub(super) fn one_line(name: &str) -> String {
    match name.chars().any(char::is_control) {
        true => name
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
            .collect(),
        false => name.to_owned(),
    }
}

/// Truncates a text, with a note on the rest.
pub(super) fn bounded(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let left = text.len() - text.floor_char_boundary(max_bytes);
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push_str(&format!("\n[… {left} bytes more …]\n"));
    }
    text
}
