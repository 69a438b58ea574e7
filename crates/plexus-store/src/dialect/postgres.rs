//! PostgreSQL: one writing connection and a pool of read-only ones, both of which reconnect after an outage.
//!
//! The writer's connection holds an advisory lock named after its hub for its lifetime. Thus no second hub of
//! that name can write, and when the hub reconnects, acquiring the lock proves that the server has ended the
//! old connection, so that the outcome of its last commit is final.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection, PgPool};
use tokio::time::Instant;

use super::{Connection, Migrations, migrator};
use crate::{Conn, StoreError};

/// Maximum number of readers; further ones wait.
const READERS: u32 = 8;
/// How long a reader or the writer waits for an unresponsive server.
const ACQUIRE: Duration = Duration::from_secs(3);
/// How long to wait for the server to notice that the previous lock holder is gone.
const LOCK: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

pub(super) const MIGRATIONS: Migrations = super::migrations!("postgres");

/// Address and credentials of a server.
#[derive(Clone)]
pub(crate) struct Server {
    options: PgConnectOptions,
}

/// Known query parameters of a URL. Others are most likely misspelt, and the driver would log them.
const PARAMETERS: &[&str] = &[
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
];

/// Makes the server drop a dead connection within half a minute, and release its lock.
const KEEP_ALIVE: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "30000"),
];

impl Server {
    pub(crate) fn new(url: &str) -> Result<Self, StoreError> {
        let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let names = query.split('&').filter(|pair| !pair.is_empty());
        let unknown = names
            .map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
            .find(|name| !PARAMETERS.contains(name));
        if let Some(name) = unknown {
            return Err(StoreError::UrlParameter { name: name.to_owned(), known: PARAMETERS.join(", ") });
        }
        // Distinguishes our connections from those of a hub with the same process id on another machine.
        let name = format!("plexus {} {}", std::process::id(), uuid::Uuid::new_v4().simple());
        let options = PgConnectOptions::from_str(url)
            .map_err(|source| StoreError::Url { source: Arc::new(source) })?
            .application_name(&name)
            .options(KEEP_ALIVE)
            .statement_cache_capacity(500)
            .disable_statement_logging();
        Ok(Self { options })
    }

    /// Host, port and name of the database.
    pub(crate) fn host_port_database(&self) -> (String, u16, String) {
        let database = self.options.get_database().unwrap_or_else(|| self.options.get_username());
        (self.options.get_host().to_owned(), self.options.get_port(), database.to_owned())
    }

    pub(crate) fn readers(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(READERS)
            .min_connections(0)
            .acquire_timeout(ACQUIRE)
            .connect_lazy_with(self.options.clone().options([("default_transaction_read_only", "on")]))
    }

    /// A dedicated read-only connection.
    pub(crate) async fn reader(&self) -> Result<Conn, StoreError> {
        let connection = self.connect().await?;
        connection.close().await.map_err(StoreError::query("closing a connection"))?;
        let connection =
            self.readers().acquire().await.map_err(StoreError::query("connecting to the database"))?;
        Ok(Conn(Connection::Postgres(connection)))
    }

    /// Migrates the schema; the returned source creates connections that write for `hub`.
    pub(crate) async fn writer(&self, hub: &str) -> Result<Source, StoreError> {
        let mut connection = self.connect().await?;
        // On the connection itself: the compiler cannot prove that the future of an acquired one is `Send`.
        let migrated = migrator(MIGRATIONS).run_direct(None, &mut connection, false).await;
        migrated.map_err(|e| StoreError::Migrate(Arc::new(e)))?;
        connection.close().await.map_err(StoreError::query("closing a connection"))?;
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(self.options.clone());
        Ok(Source { pool, lock: lock_key(hub), shown: self.to_string() })
    }

    /// A connection outside the pools, because pools hide the reason of a failure.
    async fn connect(&self) -> Result<PgConnection, StoreError> {
        let connected = tokio::time::timeout(ACQUIRE, self.options.connect()).await;
        connected
            .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
            .map_err(|source| StoreError::Open { what: self.to_string(), source: Arc::new(source) })
    }
}

/// Omits user and password.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port, database) = self.host_port_database();
        write!(f, "postgres://{host}:{port}/{database}")
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Creates the writer's connection, repeatedly.
pub(crate) struct Source {
    /// With a single connection.
    pool: PgPool,
    lock: i64,
    shown: String,
}

impl Source {
    /// A connection that holds the lock.
    pub(crate) async fn connect(&self) -> Result<Conn, StoreError> {
        let connection =
            self.pool.acquire().await.map_err(StoreError::query("connecting to the database"))?;
        let mut conn = Conn(Connection::Postgres(connection));
        let until = Instant::now() + LOCK;
        loop {
            if conn.try_lock(self.lock).await? {
                return Ok(conn);
            }
            // Our previous connection, if the server has not noticed that it broke.
            conn.end_own(self.lock).await?;
            if Instant::now() >= until {
                let holder = conn.lock_holder(self.lock).await?;
                // Closed, not returned: a connection without the lock must not occupy the pool.
                conn.close().await?;
                return Err(StoreError::InUse { path: self.shown.clone(), holder });
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }
}

/// The lock key of a hub within a database.
fn lock_key(hub: &str) -> i64 {
    let hash = digest::digest(&digest::SHA256, format!("plexus hub {hub}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_ref()[..8]);
    i64::from_be_bytes(bytes)
}

impl Conn {
    async fn try_lock(&mut self, key: i64) -> Result<bool, StoreError> {
        let sql = "SELECT CASE WHEN pg_try_advisory_lock($1) THEN 1::BIGINT ELSE 0::BIGINT END";
        let row = self.row("acquiring the hub's lock", sql, vec![key.into()]).await?;
        Ok(row.map(|row| row.int(0)).transpose()? == Some(1))
    }

    /// Terminates another connection of this process that holds the lock.
    async fn end_own(&mut self, key: i64) -> Result<(), StoreError> {
        let sql = "SELECT CASE WHEN pg_terminate_backend(a.pid) THEN 1::BIGINT ELSE 0::BIGINT END \
                   FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
                   WHERE l.locktype = 'advisory' AND l.granted AND (l.classid::BIGINT << 32) | l.objid::BIGINT = $1 \
                   AND a.application_name = current_setting('application_name') AND a.pid <> pg_backend_pid()";
        self.rows("ending a former connection", sql, vec![key.into()]).await?;
        Ok(())
    }

    /// The process id that the lock holder reported when it connected.
    async fn lock_holder(&mut self, key: i64) -> Result<Option<String>, StoreError> {
        let sql = "SELECT CAST(a.application_name AS TEXT) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
                   WHERE l.locktype = 'advisory' AND l.granted \
                   AND (l.classid::BIGINT << 32) | l.objid::BIGINT = $1";
        let row = self.row("reading the holder of the hub's lock", sql, vec![key.into()]).await?;
        let name = row.map(|row| row.text(0)).transpose()?;
        // "plexus", the process id, and a unique name.
        Ok(name.and_then(|name| name.strip_prefix("plexus ")?.split(' ').next().map(str::to_owned)))
    }
}
