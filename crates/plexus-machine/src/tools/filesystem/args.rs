//! The arguments of `filesystem`.

use plexus_tools::Alias;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileAction {
    /// Show a text file, or a part of it: `offset`, `limit`, `unit`, `line_numbers`. For a binary file, show its
    /// type; `as_base64` gives its bytes.
    Read,
    /// Write a whole file with `text` or `base64`; see `mode`.
    Write,
    /// Replace the exact text `old` with `new` in a file, or make several replacements with `edits`. `old` must occur
    /// exactly once.
    Edit,
    /// Like `edit`, but ignores differences in indentation, trailing spaces and line endings between `old` and the
    /// file. `new` is indented to match.
    SmartEdit,
    /// Apply a unified diff (`patch`) to the files in the folder `path`, or to the file `path`. All of it is applied
    /// or nothing.
    Patch,
    /// List the entries of a folder.
    List,
    /// List a folder and its subfolders, down to `depth`.
    Tree,
    /// Find files in a folder by `pattern`, such as `**/*.rs`.
    Glob,
    /// Search the files in a folder for the regular expression `pattern`.
    Grep,
    /// Copy a file or folder to the path `to`.
    Copy,
    /// Move or rename a file or folder to the path `to`.
    Move,
    /// Move a file or folder to the trash; with `permanent`, remove it permanently.
    Delete,
    /// Create a folder and its missing parents.
    Mkdir,
    /// Show the type, size and other metadata of a path.
    Stat,
    /// Compare a file with the file `to`, or with `text`.
    Diff,
    /// SHA-256 of a file.
    Hash,
}

impl FileAction {
    pub(super) const ALL: [Self; 16] = [
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::SmartEdit,
        Self::Patch,
        Self::List,
        Self::Tree,
        Self::Glob,
        Self::Grep,
        Self::Copy,
        Self::Move,
        Self::Delete,
        Self::Mkdir,
        Self::Stat,
        Self::Diff,
        Self::Hash,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::SmartEdit => "smart_edit",
            Self::Patch => "patch",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::Copy => "copy",
            Self::Move => "move",
            Self::Delete => "delete",
            Self::Mkdir => "mkdir",
            Self::Stat => "stat",
            Self::Diff => "diff",
            Self::Hash => "hash",
        }
    }
}

/// Argument names that agents know from their own tools.
pub(super) const ALIASES: &[Alias] = &[
    Alias::new(
        "path",
        &[
            "file_path",
            "filePath",
            "filepath",
            "filename",
            "file",
            "absolute_path",
            "target_file",
            "dir_path",
            "directory",
            "folder",
            "source",
        ],
    ),
    Alias::new("text", &["content", "contents", "file_text"]),
    Alias::new("old", OLD),
    Alias::new("new", NEW),
    Alias::new("replace_all", &["replaceAll"]),
    Alias::new("edits/old", OLD),
    Alias::new("edits/new", NEW),
    Alias::new("edits/replace_all", &["replaceAll"]),
    Alias::new("patch", &["diff"]),
    Alias::new("dry_run", &["dryRun"]),
    Alias::new("pattern", &["query", "regex"]),
    Alias::new("ignore_case", &["case_insensitive", "-i"]),
    Alias::new("context", &["context_lines", "-C"]),
    Alias::new("offset", &["start_line"]),
    Alias::new("limit", &["head_limit", "max_results"]),
    Alias::new("depth", &["max_depth"]),
    Alias::new("to", &["destination", "dest", "new_path"]),
    Alias::new("create_dirs", &["create_directories"]),
];
const OLD: &[&str] = &["old_string", "oldString", "old_str", "old_text", "oldText"];
const NEW: &[&str] = &["new_string", "newString", "new_str", "new_text", "newText"];

/// The unit of `offset` and `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    #[default]
    Lines,
    Bytes,
}

/// What `write` does with an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Replace it.
    #[default]
    Replace,
    /// Leave it and fail.
    Create,
    /// Append the text.
    Append,
}

/// What `grep` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Show {
    /// The matching lines.
    #[default]
    Lines,
    /// Only the files with a match.
    Files,
    /// The number of matching lines per file.
    Count,
}

/// One of several replacements.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(super) old: String,
    pub(super) new: String,
    /// Replace all occurrences instead of exactly one.
    pub(super) replace_all: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(super) action: FileAction,
    /// File or folder: absolute, starting with `~/`, or relative to the working folder.
    #[schemars(length(min = 1, max = 8192))]
    pub(super) path: String,
    /// `read`: line or byte to start at (lines count from 1, bytes from 0); a negative value counts from the end.
    /// `list`: number of entries to skip.
    pub(super) offset: Option<i64>,
    /// `read`: maximum number of lines (default 2000) or bytes (default 65536). `list`, `tree`, `glob`, `grep`:
    /// maximum number of entries or lines.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) limit: Option<u64>,
    /// `read`: unit of `offset` and `limit` (default `lines`).
    pub(super) unit: Option<Unit>,
    /// `read`: prefix each line with its number.
    pub(super) line_numbers: Option<bool>,
    /// `read`: also return the bytes as base64; with `unit` `bytes`.
    pub(super) as_base64: Option<bool>,
    /// `write`: the new content. `diff`: the text to compare with.
    pub(super) text: Option<String>,
    /// `write`: the new content as base64, instead of `text`.
    pub(super) base64: Option<String>,
    /// `write`: what to do with an existing file (default `replace`).
    pub(super) mode: Option<Mode>,
    /// `write`, `copy`, `move`: create missing parent folders.
    pub(super) create_dirs: Option<bool>,
    /// `write`, `edit`, `smart_edit`: only if the file currently has this SHA-256, as `read` and `hash` return it.
    pub(super) if_sha256: Option<String>,
    /// `edit`, `smart_edit`: the current text; include enough of it to be unique.
    pub(super) old: Option<String>,
    /// `edit`, `smart_edit`: the text that replaces it.
    pub(super) new: Option<String>,
    /// `edit`, `smart_edit`: replace all occurrences instead of exactly one.
    pub(super) replace_all: Option<bool>,
    /// `edit`, `smart_edit`: several replacements instead of one, applied in this order; all of them or none.
    #[schemars(length(min = 1, max = 100))]
    pub(super) edits: Option<Vec<Edit>>,
    /// `patch`: the unified diff; file names in it are relative to `path`.
    pub(super) patch: Option<String>,
    /// `edit`, `smart_edit`, `patch`: show what would change without changing anything.
    pub(super) dry_run: Option<bool>,
    /// `glob`, `grep`: the pattern to search for.
    #[schemars(length(min = 1, max = 4096))]
    pub(super) pattern: Option<String>,
    /// `grep`: only files whose path matches one of these patterns, such as `*.py`; a leading `!` excludes matching
    /// files.
    #[schemars(length(max = 50))]
    pub(super) files: Option<Vec<String>>,
    /// `grep`: `pattern` is plain text, not a regular expression.
    pub(super) fixed: Option<bool>,
    /// `glob`, `grep`: ignore upper and lower case.
    pub(super) ignore_case: Option<bool>,
    /// `grep`: match whole words only.
    pub(super) word: Option<bool>,
    /// `grep`: a match may span several lines.
    pub(super) multiline: Option<bool>,
    /// `grep`: lines around each match (default 0). `diff`: lines around each change (default 3).
    #[schemars(range(max = 100))]
    pub(super) context: Option<usize>,
    /// `grep`: what to show (default `lines`).
    pub(super) show: Option<Show>,
    /// `tree`, `glob`, `grep`: include names that begin with a dot. `list` always shows them.
    pub(super) hidden: Option<bool>,
    /// `tree`, `glob`, `grep`: include files excluded by `.gitignore` and `.ignore`.
    pub(super) ignored: Option<bool>,
    /// `tree`: maximum depth (default 3). `glob`, `grep`: maximum depth (default unlimited).
    #[schemars(range(min = 1, max = 1000))]
    pub(super) depth: Option<usize>,
    /// `copy`, `move`: the new path. `diff`: the other file.
    #[schemars(length(min = 1, max = 8192))]
    pub(super) to: Option<String>,
    /// `copy`, `move`: replace an existing file.
    pub(super) overwrite: Option<bool>,
    /// `delete`: remove permanently instead of moving to the trash.
    pub(super) permanent: Option<bool>,
    /// Maximum duration in seconds (default 120).
    #[schemars(range(min = 1, max = 3600))]
    #[expect(dead_code, reason = "the dispatcher reads it")]
    pub(super) timeout_seconds: Option<u64>,
}
