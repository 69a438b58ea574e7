//! The store: opening, reading and writing.

use std::fmt;
use std::fs::{File, Metadata};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::future::BoxFuture;
use plexus_kit::metrics::count;
use plexus_kit::{Durability, Metrics, Secret, Stage, Supervisor};
use plexus_proto::api::AuditHead;
use tokio::sync::watch;
use uuid::Uuid;

use crate::database_note::DatabaseLocation;
use crate::dialect::{Location, Readers, sqlite};
use crate::journal::{Journal, JournalLocation};
use crate::metrics::StoreMetrics;
use crate::writer::{Records, Ticket, Writer, WriterConnection};
use crate::{Conn, StoreError};

#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Folder of the SQLite file if no URL is given.
    pub data_dir: PathBuf,
    pub database_url: Option<Secret>,
    pub durability: Durability,
    /// The hub whose audit chain this process extends.
    pub instance_id: String,
}

/// A database without other writers, with the current schema.
pub(crate) struct Exclusive {
    pub(crate) connection: WriterConnection,
    readers: Readers,
    /// Of the database file and of the data folder, which may be one.
    pub(crate) locks: Vec<File>,
    /// Folder of the journal.
    pub(crate) journal: PathBuf,
}

pub(crate) async fn exclusive(
    options: &StoreOptions,
    supervisor: &Supervisor,
) -> Result<Exclusive, StoreError> {
    let location = Location::new(&options.data_dir, options.database_url.as_ref())?;
    let journal = location.journal(&options.data_dir);
    match location {
        Location::Sqlite(path) => {
            let lock = sqlite::lock(&path.with_extension("lock"), &path)?;
            let locks = with_folder_lock(lock, &options.data_dir)?;
            let opened = sqlite::open(&path, options.durability, supervisor).await?;
            let readers = Readers::Sqlite(opened.readers);
            Ok(Exclusive {
                connection: WriterConnection::sqlite(opened.writer, options.durability),
                readers,
                locks,
                journal,
            })
        }
        Location::Postgres(server) => {
            // The keys in the data folder belong to one hub, even if its database is elsewhere.
            let lock = sqlite::lock(&options.data_dir.join("plexus.lock"), &options.data_dir)?;
            let source = server.writer(&options.instance_id).await?;
            let readers = Readers::Postgres(server.readers());
            let connection = WriterConnection::postgres(source).await?;
            Ok(Exclusive { connection, readers, locks: vec![lock], journal })
        }
    }
}

/// Adds the lock of the data folder to that of a database file, unless they are the same file. The lock tells
/// commands on this machine whether a hub runs on the folder, wherever its database is.
fn with_folder_lock(lock: File, data_dir: &Path) -> Result<Vec<File>, StoreError> {
    let path = data_dir.join("plexus.lock");
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let own = lock.metadata().map(identity).ok();
    if own.is_some() && own == std::fs::metadata(&path).map(identity).ok() {
        return Ok(vec![lock]);
    }
    let folder = sqlite::lock(&path, data_dir)?;
    Ok(vec![lock, folder])
}

/// The id of a store, from the id of its journal.
pub(crate) fn store_id(journal: i64) -> Uuid {
    Uuid::from_u64_pair(0, journal.cast_unsigned())
}

/// Cheap to clone; all clones share pool and writer.
#[derive(Clone)]
pub struct Store {
    readers: Readers,
    writer: Writer,
    instance_id: String,
    id: Uuid,
    location: DatabaseLocation,
    metrics: StoreMetrics,
}

impl Store {
    /// Opens the database, migrates the schema, stores what is left in the journal, and starts the writer.
    pub async fn open(options: &StoreOptions, supervisor: &Supervisor) -> Result<Self, StoreError> {
        let Exclusive { mut connection, readers, locks, journal } = exclusive(options, supervisor).await?;
        let database = DatabaseLocation::of(options)?;
        let hub = &options.instance_id;
        let metrics = StoreMetrics::default();
        let conn = connection.conn()?;
        let journal_location = JournalLocation { folder: journal, id: conn.own_journal(hub).await? };
        let id = store_id(journal_location.id);
        let journal = Journal::open(journal_location, conn.journal_position(hub).await?, options.durability)?;
        let writer =
            Writer::start(connection, journal, hub, readers.clone(), locks, metrics.clone(), supervisor)
                .await?;
        Ok(Self { readers, writer, instance_id: hub.clone(), id, location: database, metrics })
    }

    /// Registers the store's metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.metrics.register(metrics);
        let writer = self.writer.clone();
        metrics.read("plexus_store_queue_depth", "Requests waiting for the writer", move || {
            count(writer.waiting())
        });
        let writer = self.writer.clone();
        let about = "Acknowledged journal records that are not in the database yet";
        metrics.read("plexus_store_journal_records", about, move || count(writer.journal().waiting()));
    }

    /// Identifies this store: a newly created one has a different id.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Where the database is, without credentials.
    #[must_use]
    pub fn location(&self) -> &DatabaseLocation {
        &self.location
    }

    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// Kind of database, for display.
    #[must_use]
    pub fn database(&self) -> &'static str {
        match self.readers {
            Readers::Sqlite(_) => "sqlite",
            Readers::Postgres(_) => "postgresql",
        }
    }

    /// A connection that sees everything acknowledged so far.
    pub async fn read(&self) -> Result<Reader, StoreError> {
        self.settle().await?;
        self.read_committed().await
    }

    /// A connection that sees the last committed state, which may lack the newest records of calls for some
    /// milliseconds: for data that only transactions write, and for readers that follow commits.
    pub async fn read_committed(&self) -> Result<Reader, StoreError> {
        let wait_started = Instant::now();
        let reader = self.readers.acquire().await.map(Reader);
        self.metrics.waited(wait_started.elapsed());
        reader
    }

    /// Runs `work` in a transaction shared with other requests, all or nothing, and appends the records that
    /// `record` derives from its outcome. Returns after the commit.
    ///
    /// If `work` fails, its writes are rolled back but the records are still written. An event for a session
    /// that does not exist is dropped and reported as an error.
    pub async fn transact<T, E, W, R>(&self, work: W, record: R) -> Result<Result<T, E>, StoreError>
    where
        T: Send + 'static,
        E: Send + 'static,
        W: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        R: FnOnce(&Result<T, E>) -> Records + Send + 'static,
    {
        self.writer.transact(work, record, false).await
    }

    /// As [`Self::transact`], but durable when it returns, regardless of the configured durability.
    pub async fn transact_through<T, E, W, R>(&self, work: W, record: R) -> Result<Result<T, E>, StoreError>
    where
        T: Send + 'static,
        E: Send + 'static,
        W: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
        R: FnOnce(&Result<T, E>) -> Records + Send + 'static,
    {
        self.writer.transact(work, record, true).await
    }

    /// Runs `work` in a transaction without records.
    pub async fn write<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        self.writer.transact(work, |_| Records::default(), false).await?
    }

    /// As [`Self::write`], but survives a power loss regardless of the configured durability: for commitments
    /// to another machine.
    pub async fn write_through<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        self.writer.transact(work, |_| Records::default(), true).await?
    }

    /// Waits until everything acknowledged so far is committed.
    pub async fn settle(&self) -> Result<(), StoreError> {
        self.writer.settle().await
    }

    /// Appends records; returns when they survive a crash of the process.
    pub async fn append(&self, records: Records) -> Result<(), StoreError> {
        self.append_with(move || records).await
    }

    /// Appends the records that `record` creates when its turn comes; returns when they survive a crash of
    /// the process.
    pub async fn append_with(
        &self,
        record: impl FnOnce() -> Records + Send + 'static,
    ) -> Result<(), StoreError> {
        self.writer.append(record).await
    }

    /// Appends records before anything submitted later, without waiting for a commit unless the journal does
    /// not accept them. The ticket tells later requests whether the records were lost, which can only happen
    /// without a journal.
    pub async fn append_soon(&self, records: Records) -> Result<Ticket, StoreError> {
        self.writer.append_soon(records).await
    }

    /// Checks that writes succeed: the last one did, or else a test write does.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        if self.writer.last_commit_succeeded() {
            return Ok(());
        }
        self.write(|conn| Box::pin(conn.touch())).await
    }

    /// Follows the newest committed link of this hub's audit chain; [settle](Self::settle) first to include
    /// everything acknowledged so far.
    #[must_use]
    pub fn audit_heads(&self) -> watch::Receiver<Option<AuditHead>> {
        self.writer.heads()
    }

    /// Notified after a commit of this process that contains events. A hint: receivers must read the events.
    #[must_use]
    pub fn event_hints(&self) -> watch::Receiver<()> {
        self.writer.event_hints()
    }

    /// Notifies followers that a unit of work appended events itself, see [`Conn::append_events`]; otherwise
    /// they notice a moment later.
    pub fn hint_events(&self) {
        self.writer.hint_events();
    }

    /// The stage in which the writer stops; all writes must be done in earlier stages.
    pub const STAGE: Stage = Stage::Storage;
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("instance_id", &self.instance_id).finish_non_exhaustive()
    }
}

/// A connection borrowed from the reader pool.
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

#[cfg(test)]
mod tests;
