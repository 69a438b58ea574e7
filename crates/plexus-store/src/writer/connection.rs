//! The writer's connection: begins transactions, rolls them back, and reconnects after a failure.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Durability;
use plexus_proto::api::AuditHead;
use sqlx::Connection as _;

use crate::dialect::{Connection, postgres};
use crate::{Conn, StoreError};

/// Time limit of a transaction on a server, after which the server counts as unreachable.
const TIME_LIMIT: Duration = Duration::from_secs(30);

pub(crate) enum WriterConnection {
    /// A file cannot become unreachable.
    Sqlite { conn: Conn, sync: SyncMode },
    /// `conn` is `None` while the server is unreachable.
    Postgres { conn: Option<Conn>, source: postgres::Source },
}

/// The sync setting of the commits to a file.
pub(crate) struct SyncMode {
    /// Whether all commits wait for the disk.
    always: bool,
    /// Whether the next commit does, according to the connection's current setting.
    next: bool,
}

/// Outcome of a rollback.
pub(super) enum RollbackOutcome {
    /// Nothing of the transaction was stored.
    Complete,
    /// The connection is lost; the outcome of a commit in progress is only known after reconnecting.
    Unknown,
}

impl WriterConnection {
    pub(crate) fn sqlite(conn: Conn, durability: Durability) -> Self {
        let always = durability == Durability::Power;
        Self::Sqlite { conn, sync: SyncMode { always, next: always } }
    }

    pub(crate) async fn postgres(source: postgres::Source) -> Result<Self, StoreError> {
        let conn = Some(source.connect().await?);
        Ok(Self::Postgres { conn, source })
    }

    /// The connection, if there is one.
    pub(crate) fn conn(&mut self) -> Result<&mut Conn, StoreError> {
        match self {
            Self::Sqlite { conn, .. } => Ok(conn),
            Self::Postgres { conn, .. } => conn.as_mut().ok_or_else(StoreError::unavailable),
        }
    }

    /// Reconnects if necessary. On a new connection, the chain head is read again: the last commit on the old
    /// one may have succeeded without an answer.
    pub(super) async fn restore(&mut self, hub: &str) -> Result<Option<Option<AuditHead>>, StoreError> {
        let Self::Postgres { conn: conn @ None, source } = self else { return Ok(None) };
        let mut fresh = source.connect().await?;
        let head = fresh.audit_head(hub).await?;
        tracing::info!("connected to the database again");
        *conn = Some(fresh);
        Ok(Some(head))
    }

    /// Whether a transaction begins before its content is known.
    ///
    /// On SQLite, transactions that contain only records are sent to the connection's thread in one command,
    /// including the `BEGIN`. On PostgreSQL, the `BEGIN` shows whether the connection still works, while
    /// nothing can be lost.
    pub(super) fn begins_early(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// Sets whether the next commit waits for the disk, which includes all earlier commits. Must be called
    /// before the transaction begins, as SQLite requires.
    pub(super) async fn sync(&mut self, through: bool) -> Result<(), StoreError> {
        let Self::Sqlite { conn, sync } = self else { return Ok(()) };
        let wanted = through || sync.always;
        if wanted != sync.next {
            let sql = if wanted { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
            conn.execute("changing the sync setting", sql, vec![]).await?;
            sync.next = wanted;
        }
        Ok(())
    }

    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        self.conn()?.begin().await
    }

    /// Rolls back a failed transaction; drops the connection if that fails.
    pub(super) async fn roll_back(&mut self) -> RollbackOutcome {
        let Ok(conn) = self.conn() else { return RollbackOutcome::Unknown };
        match (conn.execute("rolling back", "ROLLBACK", vec![]).await, &mut *self) {
            (Ok(_), _) => RollbackOutcome::Complete,
            (Err(error), Self::Sqlite { .. }) => {
                tracing::debug!(%error, "nothing to roll back");
                RollbackOutcome::Complete
            }
            (Err(_), Self::Postgres { .. }) => {
                self.drop_connection().await;
                RollbackOutcome::Unknown
            }
        }
    }

    /// Time limit of a transaction; `None` for a file.
    pub(super) fn time_limit(&self) -> Option<Duration> {
        matches!(self, Self::Postgres { .. }).then_some(TIME_LIMIT)
    }

    /// Drops a connection on which a transaction exceeded the time limit.
    pub(super) async fn time_limit_exceeded(&mut self) -> StoreError {
        self.drop_connection().await;
        StoreError::Uncertain { source: Arc::new(sqlx::Error::PoolTimedOut) }
    }

    /// Drops a connection that is in an unknown state.
    pub(super) async fn drop_connection(&mut self) {
        if let Self::Postgres { conn, .. } = self
            && let Some(Conn(Connection::Postgres(broken))) = conn.take()
        {
            tracing::warn!("lost the connection to the database");
            if let Err(error) = broken.detach().close_hard().await {
                tracing::debug!(%error, "the connection was already closed");
            }
        }
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite { conn, .. } | Self::Postgres { conn: Some(conn), .. } => conn.close().await,
            Self::Postgres { conn: None, .. } => Ok(()),
        }
    }
}
