//! The writer's connection: how it begins a transaction, undoes a unit, and comes back after it broke.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Durability;
use plexus_proto::api::AuditHead;
use sqlx::Connection as _;

use crate::dialect::{Connection, postgres};
use crate::{Conn, StoreError};

/// How long a server may take for a transaction before it counts as away.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) enum Line {
    /// A file does not go away.
    Sqlite { conn: Conn, sync: Sync },
    /// None while the server is away.
    Postgres { conn: Option<Conn>, source: postgres::Source },
}

/// Which commits of a file wait until they are on the disk.
pub(crate) struct Sync {
    /// All of them.
    always: bool,
    /// The next one, as the connection was told.
    next: bool,
}

/// How a transaction is undone.
pub(super) enum Undone {
    /// Nothing of it was stored.
    Surely,
    /// The connection is gone; whether a commit that was under way took place shows on the next one.
    Unknown,
}

impl Line {
    pub(crate) fn sqlite(conn: Conn, durability: Durability) -> Self {
        let always = durability == Durability::Power;
        Self::Sqlite { conn, sync: Sync { always, next: always } }
    }

    pub(crate) async fn postgres(source: postgres::Source) -> Result<Self, StoreError> {
        let conn = Some(source.connect().await?);
        Ok(Self::Postgres { conn, source })
    }

    /// The connection, if there is one.
    pub(crate) fn conn(&mut self) -> Result<&mut Conn, StoreError> {
        match self {
            Self::Sqlite { conn, .. } => Ok(conn),
            Self::Postgres { conn, .. } => conn.as_mut().ok_or_else(StoreError::away),
        }
    }

    /// Makes sure that there is a connection. On a new one the head of the chain is read again: the
    /// last commit on the old one may have gone through unheard.
    pub(super) async fn restore(&mut self, hub: &str) -> Result<Option<Option<AuditHead>>, StoreError> {
        let Self::Postgres { conn: conn @ None, source } = self else { return Ok(None) };
        let mut fresh = source.connect().await?;
        let head = fresh.audit_head(hub).await?;
        tracing::info!("connected to the database again");
        *conn = Some(fresh);
        Ok(Some(head))
    }

    /// Whether a transaction is begun before it is known what goes into it.
    ///
    /// On SQLite records alone go to the connection's thread in one command, beginning included. On
    /// PostgreSQL the beginning shows whether the connection still works, while nothing is lost yet.
    pub(super) fn begins_early(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// Whether the next transaction is committed only when it is on the disk, with all that was committed before it. To be
    /// said before it begins, where SQLite takes it.
    pub(super) async fn sync(&mut self, through: bool) -> Result<(), StoreError> {
        let Self::Sqlite { conn, sync } = self else { return Ok(()) };
        let wanted = through || sync.always;
        if wanted != sync.next {
            let sql = if wanted { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
            conn.execute("changing when the disk is waited for", sql, vec![]).await?;
            sync.next = wanted;
        }
        Ok(())
    }

    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        self.conn()?.begin().await
    }

    /// Undoes what a failed transaction left; a connection on which that fails is given up.
    pub(super) async fn roll_back(&mut self) -> Undone {
        let Ok(conn) = self.conn() else { return Undone::Unknown };
        match (conn.execute("rolling back", "ROLLBACK", vec![]).await, &mut *self) {
            (Ok(_), _) => Undone::Surely,
            (Err(error), Self::Sqlite { .. }) => {
                tracing::debug!(%error, "nothing to roll back");
                Undone::Surely
            }
            (Err(_), Self::Postgres { .. }) => {
                self.give_up().await;
                Undone::Unknown
            }
        }
    }

    /// How long a transaction may take; a file is waited for.
    pub(super) fn patience(&self) -> Option<Duration> {
        matches!(self, Self::Postgres { .. }).then_some(PATIENCE)
    }

    /// Gives up a connection on which a transaction took too long.
    pub(super) async fn out_of_patience(&mut self) -> StoreError {
        self.give_up().await;
        StoreError::Uncertain { source: Arc::new(sqlx::Error::PoolTimedOut) }
    }

    /// Lets go of a connection that is in an unknown state.
    pub(super) async fn give_up(&mut self) {
        if let Self::Postgres { conn, .. } = self
            && let Some(Conn(Connection::Postgres(broken))) = conn.take()
        {
            tracing::warn!("lost the connection to the database");
            if let Err(error) = broken.detach().close_hard().await {
                tracing::debug!(%error, "it was gone already");
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
