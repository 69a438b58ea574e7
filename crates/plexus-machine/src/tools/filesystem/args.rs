//! What a caller of `filesystem` may say.

use plexus_tools::Alias;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileAction {
    /// Show a text file, or a part of it: `offset`, `limit`, `unit`, `line_numbers`. Of a binary file: what it is; its bytes with `as_base64`.
    Read,
    /// Write a whole file with `text` or `base64`; see `mode`.
    Write,
    /// Replace `old` by `new` in a file, exactly as they are; or several with `edits`. `old` has to be there once.
    Edit,
    /// The same, where indentation, trailing spaces and line endings of `old` may differ from the file; `new` is indented as the place is.
    SmartEdit,
    /// Apply a unified diff (`patch`) to the files in the folder `path`, or to the file `path`: all of it or nothing.
    Patch,
    /// Show what is in a folder.
    List,
    /// Show a folder with the folders in it, down to `depth`.
    Tree,
    /// Find files in a folder by `pattern`, such as `**/*.rs`.
    Glob,
    /// Search the files in a folder for the regular expression `pattern`.
    Grep,
    /// Copy a file or folder to the path `to`.
    Copy,
    /// Move or rename a file or folder to the path `to`.
    Move,
    /// Put a file or folder into the trash; with `permanent`, remove it for good.
    Delete,
    /// Make a folder, with those above it.
    Mkdir,
    /// Tell what is at a path.
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

/// As agents call them in tools of their own.
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

/// What `offset` and `limit` count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    #[default]
    Lines,
    Bytes,
}

/// What `write` does with a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// It is replaced.
    #[default]
    Replace,
    /// It stays, and the call fails.
    Create,
    /// It gets the text at its end.
    Append,
}

/// What `grep` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Show {
    /// The lines that match.
    #[default]
    Lines,
    /// Only the files that have one.
    Files,
    /// How many each file has.
    Count,
}

/// One replacement of several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(super) old: String,
    pub(super) new: String,
    /// Wherever it is, and not only once.
    pub(super) replace_all: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(super) action: FileAction,
    /// File or folder: absolute, from `~/` on, or relative to the working folder.
    #[schemars(length(min = 1, max = 8192))]
    pub(super) path: String,
    /// `read`: line or byte to begin at (lines from 1, bytes from 0); below 0 counts from the end. `list`: entries to leave out.
    pub(super) offset: Option<i64>,
    /// `read`: most lines (default 2000) or bytes (default 65536). `list`, `tree`, `glob`, `grep`: most entries or lines.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) limit: Option<u64>,
    /// `read`: what they count (default `lines`).
    pub(super) unit: Option<Unit>,
    /// `read`: with the number of each line before it.
    pub(super) line_numbers: Option<bool>,
    /// `read`: the bytes as base64 too; with `unit` `bytes`.
    pub(super) as_base64: Option<bool>,
    /// `write`: the new content. `diff`: what to compare with.
    pub(super) text: Option<String>,
    /// `write`: the new content instead, as base64.
    pub(super) base64: Option<String>,
    /// `write`: what to do with a file that is there (default `replace`).
    pub(super) mode: Option<Mode>,
    /// `write`, `copy`, `move`: make the folders above that are missing.
    pub(super) create_dirs: Option<bool>,
    /// `write`, `edit`, `smart_edit`: only if this is the SHA-256 of the file now, as `read` and `hash` tell it.
    pub(super) if_sha256: Option<String>,
    /// `edit`, `smart_edit`: what is there now; enough of it to be there only once.
    pub(super) old: Option<String>,
    /// `edit`, `smart_edit`: what is to be there instead.
    pub(super) new: Option<String>,
    /// `edit`, `smart_edit`: wherever it is, and not only once.
    pub(super) replace_all: Option<bool>,
    /// `edit`, `smart_edit`: several replacements instead of one, in this order; all of them or none.
    #[schemars(length(min = 1, max = 100))]
    pub(super) edits: Option<Vec<Edit>>,
    /// `patch`: the unified diff; names in it are relative to `path`.
    pub(super) patch: Option<String>,
    /// `edit`, `smart_edit`, `patch`: tell what would change, and change nothing.
    pub(super) dry_run: Option<bool>,
    /// `glob`, `grep`: what to look for.
    #[schemars(length(min = 1, max = 4096))]
    pub(super) pattern: Option<String>,
    /// `grep`: only in files whose path fits one of these, such as `*.py`; with `!` before it, in no file that fits.
    #[schemars(length(max = 50))]
    pub(super) files: Option<Vec<String>>,
    /// `grep`: `pattern` is plain text and no regular expression.
    pub(super) fixed: Option<bool>,
    /// `glob`, `grep`: upper and lower case are the same.
    pub(super) ignore_case: Option<bool>,
    /// `grep`: only whole words.
    pub(super) word: Option<bool>,
    /// `grep`: a match may go over several lines.
    pub(super) multiline: Option<bool>,
    /// `grep`: lines around each match (default 0). `diff`: lines around each change (default 3).
    #[schemars(range(max = 100))]
    pub(super) context: Option<usize>,
    /// `grep`: what to show (default `lines`).
    pub(super) show: Option<Show>,
    /// `tree`, `glob`, `grep`: also names that begin with a dot. `list` always shows them.
    pub(super) hidden: Option<bool>,
    /// `tree`, `glob`, `grep`: also what `.gitignore` and `.ignore` leave out.
    pub(super) ignored: Option<bool>,
    /// `tree`: folders within folders (default 3). `glob`, `grep`: the same (default: all).
    #[schemars(range(min = 1, max = 1000))]
    pub(super) depth: Option<usize>,
    /// `copy`, `move`: the new path. `diff`: the other file.
    #[schemars(length(min = 1, max = 8192))]
    pub(super) to: Option<String>,
    /// `copy`, `move`: replace a file that is there.
    pub(super) overwrite: Option<bool>,
    /// `delete`: for good, and not into the trash.
    pub(super) permanent: Option<bool>,
    /// Most time that it may take (default 120).
    #[schemars(range(min = 1, max = 3600))]
    #[expect(dead_code, reason = "the dispatcher reads it")]
    pub(super) timeout_seconds: Option<u64>,
}
