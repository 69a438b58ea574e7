//! The arguments and the output of `transfer`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum number of bytes per call: as base64 in JSON they fit into a frame and into an answer.
pub(crate) const MAX_CHUNK: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TransferAction {
    /// The entry at `path`.
    Stat,
    /// The entries of the folder `path` after the name `after`.
    List,
    /// A part of the file `path`: `length` bytes from `offset`, if it still has this `identity`.
    Read,
    /// The SHA-256 of the file `path`, if it still has this `identity`. Repeat the call until it is complete.
    Hash,
    /// Starts or resumes the upload of a file of `size` bytes and this `sha256` to `path`.
    Begin,
    /// Writes a part of the upload: `data` at `offset`.
    Write,
    /// Moves the upload to its path if its content is right. Repeat the call until it is complete.
    Finish,
    /// Aborts the upload.
    Abort,
    /// Creates the folder `path` and its missing parents.
    MakeFolder,
}

impl TransferAction {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::List => "list",
            Self::Read => "read",
            Self::Hash => "hash",
            Self::Begin => "begin",
            Self::Write => "write",
            Self::Finish => "finish",
            Self::Abort => "abort",
            Self::MakeFolder => "make_folder",
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(super) action: TransferAction,
    /// Absolute, starting with `~/`, or relative to the working folder.
    pub(super) path: String,
    pub(super) offset: Option<u64>,
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(super) length: Option<u32>,
    /// The identity from `stat`; another file is not read.
    pub(super) identity: Option<String>,
    pub(super) size: Option<u64>,
    /// Of the whole file, in hexadecimal.
    #[schemars(length(min = 64, max = 64))]
    pub(super) sha256: Option<String>,
    /// Base64.
    pub(super) data: Option<String>,
    /// Permissions of the file, such as 420 for rw-r--r--.
    #[schemars(range(max = 511))]
    pub(super) mode: Option<u32>,
    /// Modification time in nanoseconds since 1970, as text, because not every number type can hold it.
    pub(super) modified: Option<String>,
    /// Whether an existing file at `path` is replaced.
    pub(super) replace: Option<bool>,
    /// Name of the last known entry of the folder.
    pub(super) after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EntryKind {
    Nothing,
    File,
    Folder,
    Link,
    /// A device, a pipe or a socket.
    Special,
}

/// An entry, or the absence of one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// `list`: the name in the folder. `stat`: the real path.
    pub(super) name: String,
    pub(super) what: EntryKind,
    pub(super) size: u64,
    pub(super) mode: u32,
    /// In nanoseconds since 1970.
    pub(super) modified: String,
    /// Differs for another file, and for the same file with other content.
    pub(super) identity: String,
}

/// The output of any action; fields that do not apply are omitted.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entries: Option<Vec<Entry>>,
    /// There are more entries.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) more: bool,
    /// Number of omitted entries whose names are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unnamed: Option<usize>,
    /// Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// The file does not have the requested identity.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    /// Number of leading bytes that were received or hashed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) received: Option<u64>,
    /// The file is at its final path.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) done: bool,
    /// An entry exists and was not to be replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) exists: bool,
    /// The received content does not have the announced hash; it was removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) damaged: bool,
}
