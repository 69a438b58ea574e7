//! A snapshot of a database, read without disturbing a hub that uses it.

use plexus_kit::clock::from_millis;
use plexus_proto::Timestamp;
use plexus_proto::api::{AuditHead, AuditReport};

use uuid::Uuid;

use crate::conn::Sql;
use crate::dialect::{self, Location, sqlite};
use crate::store::store_id;
use crate::{Conn, StoreError, StoreOptions, Witness};

/// A read-only transaction; later writes are not visible in it.
#[derive(Debug)]
pub struct Snapshot {
    conn: Conn,
    location: String,
}

/// General information about a database.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseInfo {
    /// Kind and version.
    pub database: String,
    /// File or server, without user and password.
    pub location: String,
    pub schema: i64,
    /// The schema version that this program requires.
    pub needed: i64,
    pub bytes: i64,
    /// Row counts of the main tables; empty before the first migration.
    pub tables: Vec<(&'static str, i64)>,
    /// Times of the oldest and the newest event.
    pub events: Option<(Timestamp, Timestamp)>,
}

/// Tables whose rows are counted.
const COUNTED: &[&str] = &["sessions", "session_events", "audit", "tokens", "idempotency", "mcp_sessions"];

impl Snapshot {
    /// `None` if there is no database yet.
    pub async fn open(options: &StoreOptions) -> Result<Option<Self>, StoreError> {
        Self::take(options, false).await
    }

    /// As [`Self::open`], for a short read without side effects: does not create WAL files if no hub has the
    /// file open. A hub that starts in the meantime may be seen in an intermediate state.
    pub async fn glance(options: &StoreOptions) -> Result<Option<Self>, StoreError> {
        Self::take(options, true).await
    }

    async fn take(options: &StoreOptions, traceless: bool) -> Result<Option<Self>, StoreError> {
        let location = Location::new(&options.data_dir, options.database_url.as_ref())?;
        let shown = location.to_string();
        let mut conn = match location {
            Location::Sqlite(path) if !path.exists() => return Ok(None),
            Location::Sqlite(path) => sqlite::reader(&path, traceless).await?,
            Location::Postgres(server) => server.reader().await?,
        };
        let begin = conn.0.snapshot_sql();
        conn.execute("beginning a snapshot", begin, vec![]).await?;
        Ok(Some(Self { conn, location: shown }))
    }

    pub(crate) fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        self.conn.close().await
    }

    /// The schema version that this program requires.
    pub const NEEDED_SCHEMA: i64 = dialect::SCHEMA;

    /// File or server, without user and password.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Kind and version of the database, for display.
    pub async fn version(&mut self) -> Result<String, StoreError> {
        let sql = self.conn.0.version_sql();
        let row = self.conn.row("asking for the version of the database", sql, vec![]).await?;
        row.map_or_else(|| Ok(String::new()), |row| row.text(0))
    }

    #[must_use]
    pub fn database(&self) -> &'static str {
        self.conn.0.kind()
    }

    /// 0 before the first migration.
    pub async fn schema_version(&mut self) -> Result<i64, StoreError> {
        let has = self.conn.0.has_table_sql();
        let ledger = self.conn.row("looking for the schema", has, vec!["_sqlx_migrations".into()]).await?;
        if ledger.is_none() {
            return Ok(0);
        }
        let version = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";
        let row = self.conn.row("reading the version of the schema", version, vec![]).await?;
        Ok(row.map(|row| row.opt_int(0)).transpose()?.flatten().unwrap_or(0))
    }

    pub async fn info(&mut self) -> Result<DatabaseInfo, StoreError> {
        let schema = self.schema_version().await?;
        let mut tables = Vec::new();
        let mut events = None;
        if schema > 0 {
            for table in COUNTED {
                let sql = Sql::Built(format!("SELECT COUNT(*) FROM {table}"));
                let row = self.conn.row("counting rows", sql, vec![]).await?;
                tables.push((*table, row.map_or(Ok(0), |row| row.int(0))?));
            }
            let sql = "SELECT MIN(at), MAX(at) FROM session_events";
            if let Some(row) = self.conn.row("reading the times of events", sql, vec![]).await? {
                events = row.opt_int(0)?.zip(row.opt_int(1)?).map(|(a, b)| (from_millis(a), from_millis(b)));
            }
        }
        let size = self.conn.0.size_sql();
        let bytes = self.conn.row("measuring the database", size, vec![]).await?;
        Ok(DatabaseInfo {
            database: self.version().await?,
            location: self.location.clone(),
            schema,
            needed: dialect::SCHEMA,
            bytes: bytes.map_or(Ok(0), |row| row.int(0))?,
            tables,
            events,
        })
    }

    /// The id of the store, see [`crate::Store::id`]; none before a hub has used it.
    pub async fn store_id(&mut self, hub: &str) -> Result<Option<Uuid>, StoreError> {
        if self.schema_version().await? == 0 {
            return Ok(None);
        }
        Ok(self.conn.journal_id(hub).await?.map(store_id))
    }

    /// The newest entry of every hub's chain.
    pub async fn audit_heads(&mut self) -> Result<Vec<AuditHead>, StoreError> {
        let rows =
            self.conn.rows("listing hubs", "SELECT DISTINCT hub FROM audit ORDER BY hub", vec![]).await?;
        let mut heads = Vec::new();
        for row in rows {
            heads.extend(self.conn.audit_head(&row.text(0)?).await?);
        }
        Ok(heads)
    }

    /// Recomputes a hub's chain, see [`crate::Store::verify_audit`].
    pub async fn verify_audit(
        &mut self,
        hub: &str,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
    ) -> Result<AuditReport, StoreError> {
        self.conn.verify_audit(hub, signed, witness).await
    }
    /// Recomputes the newest `newest` entries of a hub's chain, see [`crate::Store::verify_audit_end`].
    pub async fn verify_audit_end(
        &mut self,
        hub: &str,
        signed: Result<Option<AuditHead>, String>,
        witness: &dyn Witness,
        newest: i64,
    ) -> Result<AuditReport, StoreError> {
        self.conn.verify_audit_end(hub, signed, witness, newest).await
    }
}
