//! A portable copy of a hub: every row of one state of its database, and the files that belong to it.
//!
//! An archive is a compressed tar file that can be looked into with ordinary tools, and the same for
//! every database:
//!
//! | entry | content |
//! |---|---|
//! | `header.json` | [`Header`]: which format and schema it is, which columns the tables have |
//! | `tables/NAME/000001.jsonl` … | rows as JSON arrays, one per line, in the order of their key |
//! | `files/PATH` | files of the data folder, also those that a person wrote: [servers and profiles](is_setting) |
//! | `files/journal/N.log` | records that were acknowledged and are not in the tables yet |
//! | `manifest.json` | [`Manifest`]: what must have been read by now; without it the archive is cut off |

mod read;
mod settings;
mod tables;
mod write;

use plexus_proto::Timestamp;
use plexus_proto::api::AuditHead;
use serde::{Deserialize, Serialize};

use crate::StoreError;

pub use read::{Restored, restore};
pub use settings::{MAX_SETTING, MAX_SETTINGS, PROFILES, SERVERS, is_setting};
pub use write::{Content, write};

const FORMAT: u32 = 1;
/// Folder of the journal in an archive, whatever it is called where the archive comes from.
pub(crate) const JOURNAL: &str = "journal";
/// Bytes of rows in one entry, roughly, and the most that is taken from one.
const CHUNK: usize = 4 << 20;
const MAX_CHUNK: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    /// Version of Plexus that wrote it.
    pub version: String,
    /// Version of the schema.
    pub schema: i64,
    pub created_at: Timestamp,
    /// Kind of database it was made from.
    pub database: String,
    /// Whether the keys of the hub are in it.
    pub keys: bool,
    tables: Vec<TableColumns>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TableColumns {
    name: String,
    columns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Manifest {
    pub tables: Vec<Summary>,
    pub files: Vec<Summary>,
    pub audit: Vec<AuditState>,
}

impl Manifest {
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.count).sum()
    }
}

/// A table with its number of rows, or a file with its number of bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub name: String,
    pub count: u64,
    pub sha256: String,
}

/// What the audit of one hub came to when the archive was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditState {
    pub head: AuditHead,
    /// Whether it was whole and matched its signed head.
    pub ok: bool,
}

/// Told as rows and files go by: what is being copied, and how many of it so far.
pub type Progress<'p> = &'p mut (dyn FnMut(&str, u64) + Send);

fn wrong(message: impl Into<String>) -> StoreError {
    StoreError::Archive(message.into())
}

fn io(doing: &str) -> impl Fn(std::io::Error) -> StoreError {
    move |error| wrong(format!("{doing}: {error}"))
}
