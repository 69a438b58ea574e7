//! Which database a data folder belongs to: a small file in the folder, without credentials.
//!
//! A data folder has the keys and the signed audit head of one database. The note keeps a hub that is started
//! without its database URL from creating an empty SQLite file, whose audit would not match that head. The
//! location may change, as it does after a move to another server; the id of the store decides.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_kit::{Secret, private_file};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dialect::Location;
use crate::{Snapshot, StoreError, StoreOptions};

/// File of SQLite in the data folder.
const SQLITE: &str = "plexus.db";

/// Where a database is, without user and password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DatabaseLocation {
    Sqlite {
        /// None for the file in the data folder, which may be moved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
    Postgresql {
        host: String,
        port: u16,
        database: String,
    },
}

impl DatabaseLocation {
    /// The place that the options name.
    pub fn of(options: &StoreOptions) -> Result<Self, StoreError> {
        Ok(match Location::new(&options.data_dir, options.database_url.as_ref())? {
            Location::Sqlite(path) => {
                Self::Sqlite { path: (path != options.data_dir.join(SQLITE)).then_some(path) }
            }
            Location::Postgres(server) => {
                let (host, port, database) = server.host_port_database();
                Self::Postgresql { host, port, database }
            }
        })
    }

    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite { .. })
    }

    /// The place alone: the file, or the name and address of a PostgreSQL database.
    #[must_use]
    pub fn place(&self, data_dir: &Path) -> String {
        match self {
            Self::Sqlite { path } => {
                path.clone().unwrap_or_else(|| data_dir.join(SQLITE)).display().to_string()
            }
            Self::Postgresql { host, port, database } => format!("{database} at {host}:{port}"),
        }
    }

    /// The database file of SQLite.
    #[must_use]
    pub fn file(&self, data_dir: &Path) -> Option<PathBuf> {
        match self {
            Self::Sqlite { path } => Some(path.clone().unwrap_or_else(|| data_dir.join(SQLITE))),
            Self::Postgresql { .. } => None,
        }
    }
}

impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path: None } => write!(f, "the SQLite database {SQLITE} in the folder"),
            Self::Sqlite { path: Some(path) } => write!(f, "the SQLite database {}", path.display()),
            Self::Postgresql { host, port, database } => {
                write!(f, "the PostgreSQL database {database} at {host}:{port}")
            }
        }
    }
}

impl StoreOptions {
    /// Without a URL, selects the SQLite file that the folder's note names. For commands that use an existing database.
    pub fn with_noted_database(mut self) -> Result<Self, StoreError> {
        if self.database_url.is_none()
            && let Some(DatabaseNote { location: DatabaseLocation::Sqlite { path: Some(path) }, .. }) =
                DatabaseNote::read(&self.data_dir)?
        {
            self.database_url = Some(Secret::from(format!("sqlite:{}", path.display())));
        }
        Ok(self)
    }
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseNote {
    #[serde(flatten)]
    pub location: DatabaseLocation,
    pub store_id: Uuid,
}

impl DatabaseNote {
    /// Name in the data folder.
    pub const FILE: &'static str = "database.json";

    /// None before the first start of a hub that writes it.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = data_dir.join(Self::FILE);
        let failed = |source| StoreError::File { path: path.display().to_string(), source: Arc::new(source) };
        let Some(bytes) = private_file::read(&path).map_err(failed)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| failed(error.into()))
    }

    /// Writes the note, unless the file already contains it.
    pub fn write_if_changed(&self, data_dir: &Path) -> Result<(), StoreError> {
        if Self::read(data_dir).is_ok_and(|current| current.as_ref() == Some(self)) {
            return Ok(());
        }
        let path = data_dir.join(Self::FILE);
        let written =
            serde_json::to_vec(self).map_err(Into::into).and_then(|bytes| private_file::write(&path, &bytes));
        written
            .map_err(|source| StoreError::File { path: path.display().to_string(), source: Arc::new(source) })
    }

    /// Fails if the database of the options is not that of the folder, or if a hub with these options would create an
    /// empty one beside the keys and the audit head of another. Changes nothing: an older schema is not migrated.
    pub async fn check(options: &StoreOptions) -> Result<(), StoreError> {
        let given = DatabaseLocation::of(options)?;
        let note = Self::read(&options.data_dir)?;
        check_file(options, note.as_ref(), &given)?;
        let Some(note) = note else { return Ok(()) };
        let Some(mut snapshot) = Snapshot::glance(options).await? else { return Ok(()) };
        let found = snapshot.store_id(&options.instance_id).await;
        let found = found.map_err(|error| match error {
            // Such as a file that is not a database.
            StoreError::Query { source, .. } => {
                StoreError::Open { what: snapshot.location().to_owned(), source }
            }
            other => other,
        })?;
        snapshot.close().await?;
        if found == Some(note.store_id) { Ok(()) } else { Err(note.refuse(&options.data_dir, &given)) }
    }

    fn refuse(&self, folder: &Path, given: &DatabaseLocation) -> StoreError {
        StoreError::OtherDatabase {
            folder: folder.display().to_string(),
            noted: self.location.to_string(),
            given: given.to_string(),
        }
    }
}

/// Fails if the database would be a new or an abandoned file although the folder has a database.
fn check_file(
    options: &StoreOptions,
    note: Option<&DatabaseNote>,
    given: &DatabaseLocation,
) -> Result<(), StoreError> {
    let folder = &options.data_dir;
    let missing = given.file(folder).filter(|path| !path.exists());
    let missing_database = |path: PathBuf| StoreError::DatabaseGone {
        folder: folder.display().to_string(),
        path: path.display().to_string(),
    };
    let Some(note) = note else {
        // A folder of an older version: the first start creates the database before the head.
        let used = ["signing-key", "audit.head"].iter().all(|name| folder.join(name).exists());
        return missing.filter(|_| used).map_or(Ok(()), |path| Err(missing_database(path)));
    };
    match missing {
        Some(path) if note.location == *given => Err(missing_database(path)),
        Some(_) => Err(note.refuse(folder, given)),
        // The file may be a copy from before the move to a server, with the same id.
        None if given.is_sqlite() && !note.location.is_sqlite() => Err(note.refuse(folder, given)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
