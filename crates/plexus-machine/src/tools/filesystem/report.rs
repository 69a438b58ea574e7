//! What `filesystem` answers: data for programs, and the same as text for models.

use plexus_proto::Timestamp;
use plexus_tools::ToolOutput;
use schemars::JsonSchema;
use serde::Serialize;

/// The answer to any action; what does not belong to it is left out.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Where it really is.
    pub(super) path: String,
    /// Of `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Content>,
    /// Of `stat`, and of a binary file that was to be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) about: Option<About>,
    /// Of `list`, `tree` and `glob`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entries: Option<Vec<Entry>>,
    /// Of `grep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<Vec<Matched>>,
    /// Of `list`, `tree`, `glob` and `grep`: how much there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<Total>,
    /// What was changed: of `write`, `edit`, `smart_edit`, `patch`, `copy`, `move`, `delete` and `mkdir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changes: Option<Vec<Change>>,
    /// Of `diff`, `edit`, `smart_edit` and `patch`: a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diff: Option<String>,
    /// Of `diff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) same: Option<bool>,
    /// Of `hash`, and of a file that was read or written as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    /// What else to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

/// A part of a file.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Content {
    /// What is no UTF-8 is replaced in it.
    pub(super) text: String,
    /// The bytes that are shown, where they are no text or were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
    /// `utf-8`, `utf-16le`, `utf-16be` or `unknown`.
    pub(super) encoding: String,
    /// `lf`, `crlf`, `mixed` or `none`, of what was read.
    pub(super) line_ending: String,
    /// It begins with a byte order mark, which is not in `text`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) bom: bool,
    /// Size of the whole file.
    pub(super) bytes: u64,
    /// First line that is shown, where lines were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_line: Option<u64>,
    /// Lines of the whole file, where all of it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<u64>,
    /// First byte that is shown.
    pub(super) offset: u64,
    /// What to give as `offset`, in the same unit, to read on; none at the end of the file.
    pub(super) next_offset: Option<u64>,
    /// Lines of which only the beginning is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cut_lines: Vec<u64>,
}

/// What is at a path.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct About {
    /// `file`, `folder`, `link` or `special`.
    pub(super) kind: String,
    pub(super) bytes: u64,
    /// What it takes on the disk; less than `bytes` where it has holes.
    pub(super) on_disk: u64,
    /// Such as `0644`.
    pub(super) mode: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Names that it has.
    pub(super) names: u64,
    #[schemars(with = "String")]
    pub(super) modified_at: Timestamp,
    /// The path is a link, to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_to: Option<String>,
    /// Of a file: `text`, or what it seems to be by its first bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) looks_like: Option<String>,
    /// Whether the policy lets it be written.
    pub(super) can_be_written: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// From the folder on.
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

/// A file in which something was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Matched {
    /// From the folder on.
    pub(super) path: String,
    /// Lines that match; with `show` `files`, only that there is one.
    pub(super) matches: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<MatchedLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MatchedLine {
    pub(super) line: u64,
    pub(super) text: String,
    /// It is only beside one that matches.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) context: bool,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Total {
    /// Entries, or files that match.
    pub(super) entries: u64,
    /// `grep`: lines that match in all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) matches: Option<u64>,
    /// `grep`: files that were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) searched: Option<u64>,
    /// There is more than is shown.
    pub(super) truncated: bool,
    /// Folders that could not be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) closed: Option<u64>,
}

/// What was done to one path.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Change {
    pub(super) path: String,
    /// `created`, `changed`, `removed`, `renamed`, `copied`, `trashed` or `unchanged`.
    pub(super) what: &'static str,
    /// Where it was before, or where it is now: of `move`, `copy` and the trash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) other: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    /// Replacements, or hunks.
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

/// An answer with its text.
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

/// A name on a line of its own: what would break the line is escaped.
pub(super) fn one_line(name: &str) -> String {
    match name.chars().any(char::is_control) {
        true => name
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
            .collect(),
        false => name.to_owned(),
    }
}

/// As much of a text as fits, with a note on the rest.
pub(super) fn bounded(mut text: String, most: usize) -> String {
    if text.len() > most {
        let left = text.len() - text.floor_char_boundary(most);
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("\n[… {left} bytes more …]\n"));
    }
    text
}
