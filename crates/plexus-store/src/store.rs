//! The store: how it is opened, read from and written to.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use plexus_kit::{Durability, ExposeSecret, Secret, Stage, Supervisor};
use plexus_proto::api::AuditHead;
use sqlx::SqlitePool;
use tokio::sync::watch;

use crate::dialect::{Connection, sqlite};
use crate::writer::{Records, Ticket, Writer};
use crate::{Conn, StoreError};

#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Where SQLite keeps its file when no URL is given.
    pub data_dir: PathBuf,
    pub database_url: Option<Secret>,
    pub durability: Durability,
    /// Which hub's audit chain this process extends.
    pub instance_id: String,
}

impl StoreOptions {
    /// The SQLite file.
    pub(crate) fn path(&self) -> Result<PathBuf, StoreError> {
        let Some(url) = &self.database_url else { return Ok(self.data_dir.join("plexus.db")) };
        let url = url.expose_secret();
        match url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")) {
            Some(path) if !path.is_empty() && !path.starts_with(':') && !path.contains('?') => {
                Ok(PathBuf::from(path))
            }
            _ => {
                // Only the scheme: the rest may carry a password.
                let scheme = url.split_once(':').map_or("a URL without a scheme", |(scheme, _)| scheme);
                Err(StoreError::UnsupportedUrl(scheme.to_owned()))
            }
        }
    }
}

/// Cheap to clone; all clones share pool and writer.
#[derive(Clone)]
pub struct Store {
    readers: SqlitePool,
    writer: Writer,
    instance_id: String,
}

impl Store {
    /// Opens the database, brings it to the current schema and starts the writer.
    pub async fn open(options: &StoreOptions, supervisor: &Supervisor) -> Result<Self, StoreError> {
        let path = options.path()?;
        let pools = sqlite::open(&path, options.durability, supervisor).await?;
        let connection = pools.writer.acquire().await.map_err(StoreError::query("opening the writer"))?;
        let mut conn = Conn(Connection::Sqlite(connection));
        let head = conn.audit_head(&options.instance_id).await?;
        let writer = Writer::start(
            conn,
            options.instance_id.clone(),
            head,
            pools.readers.clone(),
            pools.lock,
            supervisor,
        );
        Ok(Self { readers: pools.readers, writer, instance_id: options.instance_id.clone() })
    }

    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// Kind of database, for people.
    #[must_use]
    pub fn database(&self) -> &'static str {
        "sqlite"
    }

    /// A connection that reads the last committed state.
    pub async fn read(&self) -> Result<Reader, StoreError> {
        let connection = self.readers.acquire().await.map_err(StoreError::query("waiting for a reader"))?;
        Ok(Reader(Conn(Connection::Sqlite(connection))))
    }

    /// Runs `work` in a transaction that it shares with others, all or nothing, and appends with it
    /// what `record` makes of the outcome. Returns after the commit.
    ///
    /// When `work` fails, what it wrote is undone; the records are written all the same. An event for
    /// a session that does not exist is left out and answered with an error.
    pub async fn transact<T, E, W, R>(&self, work: W, record: R) -> Result<Result<T, E>, StoreError>
    where
        T: Send + 'static,
        E: Send + 'static,
        W: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        R: FnOnce(&Result<T, E>) -> Records + Send + 'static,
    {
        self.writer.transact(work, record).await
    }

    /// Runs `work` in a transaction; no records.
    pub async fn write<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        self.writer.transact(work, |_| Records::default()).await?
    }

    /// Appends records; returns after the commit.
    pub async fn append(&self, records: Records) -> Result<(), StoreError> {
        self.append_with(move || records).await
    }

    /// Appends what `record` makes when its turn has come; returns after the commit.
    pub async fn append_with(
        &self,
        record: impl FnOnce() -> Records + Send + 'static,
    ) -> Result<(), StoreError> {
        self.writer.append(record).await
    }

    /// Appends records before anything that is submitted later, without waiting for the commit. The
    /// ticket tells whoever comes later in the queue whether they were lost.
    pub async fn append_soon(&self, records: Records) -> Result<Ticket, StoreError> {
        self.writer.append_soon(records).await
    }

    /// Whether writes succeed: those that were made, or, after a failure, one more.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        if self.writer.last_commit_succeeded() {
            return Ok(());
        }
        self.write(|conn| Box::pin(conn.touch())).await
    }

    /// Follows the newest committed link of this hub's audit chain.
    #[must_use]
    pub fn audit_heads(&self) -> watch::Receiver<Option<AuditHead>> {
        self.writer.heads()
    }

    /// The stage in which the writer ends; whatever must still be written has to be done before.
    pub const STAGE: Stage = Stage::Storage;
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("instance_id", &self.instance_id).finish_non_exhaustive()
    }
}

/// A connection on loan from the pool of readers.
#[derive(Debug)]
pub struct Reader(Conn);

impl Deref for Reader {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.0
    }
}

impl DerefMut for Reader {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.0
    }
}
