//! Grants in the database, sealed with the hub's key, so that a copy of the database alone reveals nothing.

use std::sync::Arc;

use plexus_auth::SealingKey;
use plexus_kit::{Clock, ExposeSecret, Secret};
use plexus_store::Store;

use super::grant::{Grant, SealedGrant};

/// The kind of stored credential.
const CREDENTIAL_KIND: &str = "grant";

/// Cheap to clone; clones share their state.
#[derive(Debug, Clone)]
pub struct Vault {
    store: Store,
    key: Arc<SealingKey>,
    clock: Clock,
}

/// The stored grant of a server.
pub(super) enum StoredGrant {
    Nothing,
    Grant(Box<SealedGrant>),
    /// Sealed with another key, or damaged.
    Unreadable,
}

impl Vault {
    #[must_use]
    pub fn new(store: Store, key: Arc<SealingKey>, clock: Clock) -> Self {
        Self { store, key, clock }
    }

    pub(super) async fn read(&self, server: &str) -> Result<StoredGrant, String> {
        let read =
            async { self.store.read_committed().await?.upstream_credential(server, CREDENTIAL_KIND).await };
        let Some(sealed) = read.await.map_err(|error| error.to_string())? else {
            return Ok(StoredGrant::Nothing);
        };
        let opened = self.key.open_sealed(&[server, CREDENTIAL_KIND], &sealed);
        let stored = opened.and_then(|text| serde_json::from_str(text.expose_secret()).ok());
        Ok(stored.map_or(StoredGrant::Unreadable, |stored| StoredGrant::Grant(Box::new(stored))))
    }

    /// Returns after the commit.
    pub(super) async fn save(&self, server: &str, grant: &Grant) -> Result<(), String> {
        let text = serde_json::to_string(&grant.stored()).map_err(|error| error.to_string())?;
        let sealed = self.key.seal(&[server, CREDENTIAL_KIND], &Secret::from(text));
        let sealed = sealed.map_err(|error| error.to_string())?;
        let (server, now) = (server.to_owned(), self.clock.now());
        let written = self.store.write(move |conn| {
            Box::pin(
                async move { conn.store_upstream_credential(&server, CREDENTIAL_KIND, &sealed, now).await },
            )
        });
        written.await.map_err(|error| error.to_string())
    }

    pub(super) async fn forget(&self, server: &str) -> Result<(), String> {
        let server = server.to_owned();
        let forgotten = self.store.write(move |conn| {
            Box::pin(async move { conn.delete_upstream_credentials(&server).await.map(drop) })
        });
        forgotten.await.map_err(|error| error.to_string())
    }
}
