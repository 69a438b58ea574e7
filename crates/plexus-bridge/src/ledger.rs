//! The ledger: a record of everything written into files of agents, sufficient to recognize it and to remove it.
//!
//! The ledger is one file, readable by its owner only and replaced atomically. A change is recorded as *pending*,
//! with its resulting record, before the agent's file is touched: after a crash, the file's content shows whether the
//! change was made. Backups of files are stored next to the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plexus_kit::private_file;
use plexus_proto::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::confined_path::{ConfinedPath, hash};
use crate::document::{Syntax, Undo};
use crate::error::BridgeError;
use crate::moved_server::MovedServer;

const FILE: &str = "ledger.json";
const BACKUPS: &str = "backups";
/// The number of backups per file, besides the one from before the connection.
const MAX_BACKUPS: usize = 20;
/// The format version. A ledger of a later version is not touched.
const FORMAT_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    version: u32,
    /// By agent, and by project for a project connection.
    pub connections: BTreeMap<String, Connection>,
    pub backups: Vec<Backup>,
    pub(crate) pending: Option<Pending>,
}

#[derive(Deserialize)]
struct FormatVersion {
    version: u32,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { version: FORMAT_VERSION, connections: BTreeMap::new(), backups: Vec::new(), pending: None }
    }
}

/// A connected agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    pub agent: String,
    pub project: Option<PathBuf>,
    pub connected_at: Timestamp,
    pub version: Option<String>,
    /// The URL of its hub; none for the hub of this machine.
    #[serde(default)]
    pub hub: Option<String>,
    /// The variables that located its files when it was connected. A service or another shell may have other values.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Its instructions are paused.
    #[serde(default)]
    pub paused: bool,
    /// Whether it gets instructions.
    #[serde(default)]
    pub instructions: bool,
    pub last_sync_at: Option<Timestamp>,
    pub files: Vec<FileRecord>,
    /// Files that could not be written last time, with the reason.
    #[serde(default)]
    pub troubles: Vec<FileProblem>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileProblem {
    pub path: PathBuf,
    pub why: String,
    pub fix: String,
    pub conflict: bool,
}

impl FileProblem {
    #[must_use]
    pub fn from_error(error: &BridgeError) -> Self {
        let path = match error {
            BridgeError::Refused { path, .. }
            | BridgeError::Conflict { path, .. }
            | BridgeError::Io { path, .. } => path,
            BridgeError::Restless(path) | BridgeError::Ledger { path, .. } => path,
            BridgeError::Busy(_) | BridgeError::NoBackup(_) => Path::new(""),
        };
        Self {
            path: path.to_owned(),
            why: error.to_string(),
            fix: error.fix(),
            conflict: error.is_conflict(),
        }
    }
}

/// Our content in one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    pub path: PathBuf,
    pub part: ManagedPart,
    /// The hash of the file after our last write.
    pub hash: String,
    /// The backup from before; none if there was no file.
    pub before: Option<String>,
    /// No other program has written it since then.
    #[serde(default)]
    pub alone: bool,
    /// Folders created for it.
    #[serde(default)]
    pub made: Vec<PathBuf>,
    pub written_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManagedPart {
    /// An entry among the servers.
    Entry {
        syntax: Syntax,
        keys: Vec<String>,
        ours: Value,
        undo: Undo,
        /// Servers removed from the file because they were moved behind the hub.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        moved: Vec<MovedServer>,
    },
    /// A block of instructions.
    Block { hash: String, lead: String },
    /// The whole file.
    Own,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    pub id: String,
    pub path: PathBuf,
    pub at: Timestamp,
    pub hash: String,
}

/// A change that may or may not have been made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) connection: String,
    pub(crate) root: PathBuf,
    pub(crate) below: PathBuf,
    /// The temporary file next to it.
    pub(crate) beside: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) path: PathBuf,
    /// The record of the file after the change.
    pub(crate) record: Option<FileRecord>,
}

impl Ledger {
    pub(crate) fn read(folder: &Path) -> Result<Self, BridgeError> {
        let path = folder.join(FILE);
        let unusable = |why: String| BridgeError::Ledger { path: path.clone(), why };
        let Some(content) = private_file::read(&path).map_err(|error| unusable(error.to_string()))? else {
            return Ok(Self::default());
        };
        // Checked first, because other versions may have other fields.
        let FormatVersion { version } =
            serde_json::from_slice(&content).map_err(|error| unusable(error.to_string()))?;
        if version != FORMAT_VERSION {
            return Err(unusable(format!(
                "it has version {version}, but this program supports version {FORMAT_VERSION}"
            )));
        }
        serde_json::from_slice(&content).map_err(|error| unusable(error.to_string()))
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), BridgeError> {
        let path = folder.join(FILE);
        let content = serde_json::to_vec_pretty(self)
            .map_err(|error| BridgeError::Ledger { path: path.clone(), why: error.to_string() })?;
        private_file::write(&path, &content).map_err(BridgeError::io(&path, "write"))
    }

    /// Whether another connection also uses this file.
    pub(crate) fn is_shared(&self, path: &Path, except: &str) -> bool {
        let others = self.connections.iter().filter(|(key, _)| *key != except);
        others.into_iter().any(|(_, other)| other.files.iter().any(|record| record.path == path))
    }

    /// The record of a file, from any connection.
    pub(crate) fn record(&self, path: &Path) -> Option<&FileRecord> {
        self.connections.values().flat_map(|connection| &connection.files).find(|record| record.path == path)
    }

    /// Sets the record of a file for this connection and all others that use it.
    pub(crate) fn set_record(&mut self, key: &str, path: &Path, record: Option<&FileRecord>) {
        for (other, connection) in &mut self.connections {
            let known = connection.files.iter_mut().find(|record| record.path == path);
            match (known, record) {
                (Some(known), Some(record)) => *known = record.clone(),
                (None, Some(record)) if other == key => connection.files.push(record.clone()),
                (Some(_), None) => connection.files.retain(|record| record.path != path),
                (None, _) => {}
            }
        }
    }

    /// The folders created for this file; the last of our files in them removes them.
    pub(crate) fn created_folders(&self, location: &ConfinedPath) -> Vec<PathBuf> {
        let path = location.path();
        let records = self.connections.values().flat_map(|connection| &connection.files);
        let existing_folders =
            records.flat_map(|record| &record.made).filter(|folder| path.starts_with(folder));
        let made: BTreeSet<PathBuf> = existing_folders.cloned().chain(location.missing_folders()).collect();
        made.into_iter().collect()
    }

    /// Forgets a file for one connection; others may still use it.
    pub(crate) fn forget_file(&mut self, key: &str, path: &Path) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.files.retain(|record| record.path != path);
        }
    }

    /// Stores a backup of a file and returns its name. Identical content is stored once.
    pub(crate) fn back_up(
        &mut self,
        folder: &Path,
        path: &Path,
        content: &str,
        now: Timestamp,
    ) -> Result<String, BridgeError> {
        let hash = hash(content.as_bytes());
        if let Some(same) = self.backups.iter().find(|backup| backup.path == path && backup.hash == hash) {
            return Ok(same.id.clone());
        }
        let name: String = path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
            .collect();
        let time = now.strftime("%Y%m%d-%H%M%S");
        // Files with the same name may have the same text at the same time.
        let path_hash = self::hash(format!("{}\n{hash}", path.display()).as_bytes());
        let id = format!("{time}-{}-{}", name.trim_start_matches('.'), &path_hash[..8]);
        let backups = folder.join(BACKUPS);
        private_file::create_dir(&backups).map_err(BridgeError::io(&backups, "make the folder"))?;
        let file = backups.join(&id);
        private_file::write(&file, content.as_bytes()).map_err(BridgeError::io(&file, "write"))?;
        self.backups.push(Backup { id: id.clone(), path: path.to_owned(), at: now, hash });
        Ok(id)
    }

    /// The content of a backup, if its hash still matches.
    pub(crate) fn backup(&self, folder: &Path, id: &str) -> Result<(&Backup, String), BridgeError> {
        let missing = || BridgeError::NoBackup(id.to_owned());
        let backup = self.backups.iter().find(|backup| backup.id == id).ok_or_else(missing)?;
        let file = folder.join(BACKUPS).join(&backup.id);
        let content =
            private_file::read(&file).map_err(BridgeError::io(&file, "read"))?.ok_or_else(missing)?;
        if hash(&content) != backup.hash {
            return Err(BridgeError::Ledger {
                path: file,
                why: "its content has changed since the backup was made".to_owned(),
            });
        }
        let text = String::from_utf8(content)
            .map_err(|_| BridgeError::Ledger { path: file, why: "it is not UTF-8".to_owned() })?;
        Ok((backup, text))
    }

    /// Drops the oldest unused backups of a file and returns their names.
    pub(crate) fn forget_old_backups(&mut self, path: &Path) -> Vec<String> {
        let needed: Vec<String> = self
            .connections
            .values()
            .flat_map(|c| &c.files)
            .filter_map(|record| record.before.clone())
            .collect();
        let of_file =
            self.backups.iter().filter(|backup| backup.path == path && !needed.contains(&backup.id));
        let ids: Vec<String> = of_file.map(|backup| backup.id.clone()).collect();
        let old = ids[..ids.len().saturating_sub(MAX_BACKUPS)].to_vec();
        self.backups.retain(|backup| !old.contains(&backup.id));
        old
    }
}

/// Removes backups that the ledger no longer lists.
pub(crate) fn remove_backups(folder: &Path, ids: &[String]) {
    for id in ids {
        // A backup that remains only takes space.
        let _ = std::fs::remove_file(folder.join(BACKUPS).join(id));
    }
}
