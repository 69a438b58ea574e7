//! What was written into files of agents: enough to tell ours from theirs, and to take it back.
//!
//! The ledger is one file that only its owner reads, replaced as a whole. A change is in it as *pending* before the file of
//! the agent is touched, together with what the record will be: whoever finds it after a crash can tell from the file
//! which of the two it is. Files as they were before a change are kept beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plexus_kit::private_file;
use plexus_proto::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{Syntax, Undo};
use crate::error::BridgeError;
use crate::moved::Moved;
use crate::place::{Place, hash};

const FILE: &str = "ledger.json";
const BACKUPS: &str = "backups";
/// Copies of one file that are kept, besides the one from before it was connected.
const KEPT: usize = 20;
/// One that a later version of this program has written is not touched.
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    version: u32,
    /// By agent, and project where it is not for all of them.
    pub connections: BTreeMap<String, Connection>,
    pub backups: Vec<Backup>,
    pub(crate) pending: Option<Pending>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { version: VERSION, connections: BTreeMap::new(), backups: Vec::new(), pending: None }
    }
}

/// An agent that is wired to the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    pub agent: String,
    pub project: Option<PathBuf>,
    pub connected_at: Timestamp,
    pub version: Option<String>,
    /// The hub that it is connected to, by its URL; none: the one of this machine.
    #[serde(default)]
    pub hub: Option<String>,
    /// What said where its files are when it was connected. A hub that runs as a service, or another shell, may be told otherwise.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Its instructions are left alone.
    #[serde(default)]
    pub paused: bool,
    /// Whether it gets instructions at all.
    #[serde(default)]
    pub instructions: bool,
    pub last_sync_at: Option<Timestamp>,
    pub files: Vec<Record>,
    /// Files that could not be written the last time, and why.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    pub path: PathBuf,
    pub why: String,
    pub fix: String,
    pub conflict: bool,
}

impl Trouble {
    #[must_use]
    pub fn of(error: &BridgeError) -> Self {
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

/// What is ours in one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub path: PathBuf,
    pub part: Part,
    /// Of the file as we left it.
    pub hash: String,
    /// The copy from before; none where there was no file.
    pub before: Option<String>,
    /// Nobody else has written it since then.
    #[serde(default)]
    pub alone: bool,
    /// Folders that were made for it.
    #[serde(default)]
    pub made: Vec<PathBuf>,
    pub written_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// An entry among the servers.
    Entry {
        syntax: Syntax,
        keys: Vec<String>,
        ours: Value,
        undo: Undo,
        /// Servers beside it that were taken out of the file because they are behind the hub now.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        moved: Vec<Moved>,
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

/// A change that may have been made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) connection: String,
    pub(crate) root: PathBuf,
    pub(crate) below: PathBuf,
    /// The file that is written beside it.
    pub(crate) beside: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) path: PathBuf,
    /// What is to be known of the file afterwards.
    pub(crate) record: Option<Record>,
}

impl Ledger {
    pub(crate) fn read(folder: &Path) -> Result<Self, BridgeError> {
        let path = folder.join(FILE);
        let broken = |why: String| BridgeError::Ledger { path: path.clone(), why };
        let Some(content) = private_file::read(&path).map_err(|error| broken(error.to_string()))? else {
            return Ok(Self::default());
        };
        // First of all, since another version may have other fields.
        let Version { version } =
            serde_json::from_slice(&content).map_err(|error| broken(error.to_string()))?;
        if version != VERSION {
            return Err(broken(format!("it is of version {version}, and this program knows {VERSION}")));
        }
        serde_json::from_slice(&content).map_err(|error| broken(error.to_string()))
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), BridgeError> {
        let path = folder.join(FILE);
        let content = serde_json::to_vec_pretty(self)
            .map_err(|error| BridgeError::Ledger { path: path.clone(), why: error.to_string() })?;
        private_file::write(&path, &content).map_err(BridgeError::io(&path, "write"))
    }

    /// Whether another connection has something in this file too.
    pub(crate) fn is_shared(&self, path: &Path, but: &str) -> bool {
        let others = self.connections.iter().filter(|(key, _)| *key != but);
        others.into_iter().any(|(_, other)| other.files.iter().any(|record| record.path == path))
    }

    /// What is known of a file, from whichever connection.
    pub(crate) fn record(&self, path: &Path) -> Option<&Record> {
        self.connections.values().flat_map(|connection| &connection.files).find(|record| record.path == path)
    }

    /// Sets what is known of a file: for all connections that know it, and for this one.
    pub(crate) fn settle(&mut self, key: &str, path: &Path, record: Option<&Record>) {
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

    /// Folders that are there for the sake of this file: whichever of ours is the last one in them takes them along.
    pub(crate) fn made_for(&self, place: &Place) -> Vec<PathBuf> {
        let path = place.path();
        let records = self.connections.values().flat_map(|connection| &connection.files);
        let above = records.flat_map(|record| &record.made).filter(|folder| path.starts_with(folder));
        let made: BTreeSet<PathBuf> = above.cloned().chain(place.missing()).collect();
        made.into_iter().collect()
    }

    /// Forgets a file for one connection, where others need what is in it still.
    pub(crate) fn leave(&mut self, key: &str, path: &Path) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.files.retain(|record| record.path != path);
        }
    }

    /// Keeps a copy of a file, and gives its name. The same content is kept once.
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
        // The same text may be in files of the same name, at the same moment.
        let whose = self::hash(format!("{}\n{hash}", path.display()).as_bytes());
        let id = format!("{time}-{}-{}", name.trim_start_matches('.'), &whose[..8]);
        let backups = folder.join(BACKUPS);
        private_file::create_dir(&backups).map_err(BridgeError::io(&backups, "make the folder"))?;
        let file = backups.join(&id);
        private_file::write(&file, content.as_bytes()).map_err(BridgeError::io(&file, "write"))?;
        self.backups.push(Backup { id: id.clone(), path: path.to_owned(), at: now, hash });
        Ok(id)
    }

    /// The content of a copy, if it is still what was kept.
    pub(crate) fn backup(&self, folder: &Path, id: &str) -> Result<(&Backup, String), BridgeError> {
        let missing = || BridgeError::NoBackup(id.to_owned());
        let backup = self.backups.iter().find(|backup| backup.id == id).ok_or_else(missing)?;
        let file = folder.join(BACKUPS).join(&backup.id);
        let content =
            private_file::read(&file).map_err(BridgeError::io(&file, "read"))?.ok_or_else(missing)?;
        if hash(&content) != backup.hash {
            return Err(BridgeError::Ledger { path: file, why: "it is not what was kept".to_owned() });
        }
        let text = String::from_utf8(content)
            .map_err(|_| BridgeError::Ledger { path: file, why: "it is not UTF-8".to_owned() })?;
        Ok((backup, text))
    }

    /// Drops the oldest copies of a file that nobody needs, and gives their names.
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
        let old = ids[..ids.len().saturating_sub(KEPT)].to_vec();
        self.backups.retain(|backup| !old.contains(&backup.id));
        old
    }
}

/// Removes copies that are in no ledger any more.
pub(crate) fn remove_backups(folder: &Path, ids: &[String]) {
    for id in ids {
        // One that stays takes room and does no harm.
        let _ = std::fs::remove_file(folder.join(BACKUPS).join(id));
    }
}
