//! A portable copy of a hub: every row of a database snapshot, and the related files.
//!
//! An archive is a compressed tar file that ordinary tools can inspect, with the same format for every
//! database:
//!
//! | entry | content |
//! |---|---|
//! | `header.json` | [`Header`]: format and schema version, and the columns of the tables |
//! | `tables/NAME/000001.jsonl` … | rows as JSON arrays, one per line, ordered by key |
//! | `files/PATH` | files of the data folder, including user-written ones: [servers and profiles](is_setting) |
//! | `files/journal/N.log` | acknowledged records that are not in the tables yet |
//! | `manifest.json` | [`Manifest`]: expected content; an archive without it is truncated |

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
/// Folder of the journal in an archive, regardless of its name at the source.
pub(crate) const JOURNAL: &str = "journal";
/// Approximate size in bytes of the rows in one entry; [`MAX_CHUNK`] is the limit when reading.
const CHUNK: usize = 4 << 20;
const MAX_CHUNK: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    /// Version of Plexus that wrote the archive.
    pub version: String,
    /// Schema version.
    pub schema: i64,
    pub created_at: Timestamp,
    /// Kind of database it was created from.
    pub database: String,
    /// Whether the archive contains the keys of the hub.
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

/// State of a hub's audit log when the archive was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditState {
    pub head: AuditHead,
    /// Whether the chain was intact and matched its signed head.
    pub ok: bool,
}

/// Progress callback: the item being copied, and the count so far.
pub type Progress<'p> = &'p mut (dyn FnMut(&str, u64) + Send);

fn wrong(message: impl Into<String>) -> StoreError {
    StoreError::Archive(message.into())
}

fn io(doing: &str) -> impl Fn(std::io::Error) -> StoreError {
    move |error| wrong(format!("{doing}: {error}"))
}
