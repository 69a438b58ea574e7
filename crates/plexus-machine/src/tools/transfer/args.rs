//! What a caller of `transfer` may say, and what it is answered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes that are carried at once: as base64 in JSON they fit into a frame and into what a call may answer.
pub(crate) const MAX_CHUNK: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TransferAction {
    /// What is at `path`.
    Stat,
    /// What is in the folder `path`, from the name `after` on.
    List,
    /// A part of the file `path`: `length` bytes from `offset` on, if it is still the one with this `identity`.
    Read,
    /// The SHA-256 of the file `path`, if it is still the one with this `identity`. Asked for again until it is there.
    Hash,
    /// Begins a file of `size` bytes and this `sha256` that is to be at `path`, or goes on with it.
    Begin,
    /// A part of it: `data` at `offset`.
    Write,
    /// Puts it in its place if its content is right. Asked for again until it is there.
    Finish,
    /// Gives it up.
    Abort,
    /// Makes the folder `path`, with those above it.
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
    /// Absolute, from `~/` on, or relative to the working folder.
    pub(super) path: String,
    pub(super) offset: Option<u64>,
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(super) length: Option<u32>,
    /// As `stat` gave it: of another file there is no part.
    pub(super) identity: Option<String>,
    pub(super) size: Option<u64>,
    /// Of the whole, in hexadecimal digits.
    #[schemars(length(min = 64, max = 64))]
    pub(super) sha256: Option<String>,
    /// Base64.
    pub(super) data: Option<String>,
    /// Permissions of the file, such as 420 for rw-r--r--.
    #[schemars(range(max = 511))]
    pub(super) mode: Option<u32>,
    /// When it was changed last, in nanoseconds since 1970, as text: it does not fit into every number.
    pub(super) modified: Option<String>,
    /// Whether a file that is at `path` is replaced.
    pub(super) replace: Option<bool>,
    /// Name in the folder, of the last entry that is known.
    pub(super) after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Nothing,
    File,
    Folder,
    Link,
    /// A device, a pipe or a socket.
    Special,
}

/// Something that is there, or not.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// Of `list`: in its folder. Of `stat`: where it really is.
    pub(super) name: String,
    pub(super) what: What,
    pub(super) size: u64,
    pub(super) mode: u32,
    /// In nanoseconds since 1970.
    pub(super) modified: String,
    /// Other than before: another file, or the same with another content.
    pub(super) identity: String,
}

/// The answer to any action; what does not belong to it is left out.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entries: Option<Vec<Entry>>,
    /// There are more entries.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) more: bool,
    /// Entries whose names are no text, which are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unnamed: Option<usize>,
    /// Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// The file is not the one that was asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    /// Bytes from the beginning on that are there, or that were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) received: Option<u64>,
    /// It is in its place.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) done: bool,
    /// Something is there, and was not to be replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) exists: bool,
    /// What arrived is not what was announced; nothing of it is left.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) damaged: bool,
}
