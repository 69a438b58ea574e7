//! The credential of a node, in a file that only its owner can read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::HeaderValue;
use plexus_kit::{Clock, private_file};
use plexus_proto::api::NodeCredential;
use plexus_proto::{NodeId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::NodeError;
use crate::hub_client::{HubClient, HubError};
use crate::link::tls::TlsOptions;

const FILE: &str = "credential.json";
/// Delay before a failed renewal is tried again.
const RETRY: Duration = Duration::from_secs(60);
/// Assumed minimum lifetime, in case the clocks of hub and node differ so much that none seems to be left.
const MIN_LIFETIME: Duration = Duration::from_secs(60);

/// The node's membership of a hub, as stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// Address of the hub.
    pub hub: String,
    pub node_id: NodeId,
    pub name: String,
    /// None if a certificate identifies the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// By this machine's clock.
    pub issued_at: Timestamp,
    /// By the hub's.
    pub expires_at: Timestamp,
    /// The TLS files that it joined with.
    #[serde(default)]
    pub tls: TlsOptions,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("hub", &self.hub)
            .field("node_id", &self.node_id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Credential {
    #[must_use]
    pub fn new(hub: &HubClient, given: NodeCredential, clock: &Clock) -> Self {
        let NodeCredential { node_id, name, token, expires_at } = given;
        let (hub, tls) = (hub.address().to_owned(), hub.files().clone());
        Self { hub, node_id, name, token, issued_at: clock.now(), expires_at, tls }
    }

    /// The credential in a data folder, if the machine has joined a hub.
    ///
    /// # Errors
    /// If the file cannot be read, is readable by others or is damaged.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, NodeError> {
        let path = data_dir.join(FILE);
        let Some(content) = private_file::read(&path).map_err(NodeError::DataDir)? else { return Ok(None) };
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|error| NodeError::Credential { path, why: error.to_string() })
    }

    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, data_dir: &Path) -> Result<(), NodeError> {
        private_file::create_dir(data_dir).map_err(NodeError::DataDir)?;
        let text = serde_json::to_string(self).unwrap_or_default();
        private_file::write(&data_dir.join(FILE), format!("{text}\n").as_bytes()).map_err(NodeError::DataDir)
    }

    fn authorization(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.token.as_deref()?)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Time until the renewal is due: at half of the lifetime.
    fn renew_in(&self, now: Timestamp) -> Duration {
        let between = |from: Timestamp, to: Timestamp| {
            u64::try_from(to.as_millisecond().saturating_sub(from.as_millisecond())).unwrap_or(0)
        };
        let half = Duration::from_millis(between(self.issued_at, self.expires_at)).max(MIN_LIFETIME) / 2;
        // If the clock was set back, no time seems to have passed.
        half.saturating_sub(Duration::from_millis(between(self.issued_at, now)))
    }
}

/// The credential in use, and its file.
#[derive(Debug)]
pub(crate) struct CurrentCredential {
    data_dir: PathBuf,
    current: Mutex<Credential>,
    clock: Clock,
}

impl CurrentCredential {
    pub(crate) fn new(data_dir: PathBuf, credential: Credential, clock: Clock) -> Self {
        Self { data_dir, current: Mutex::new(credential), clock }
    }

    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        self.current().authorization()
    }

    /// Reads the file again, because the machine may have joined again. Returns true if a new credential is now in use.
    pub(crate) fn reread(&self) -> bool {
        let current = self.current();
        match Credential::read(&self.data_dir) {
            Ok(Some(other)) if other.token != current.token && other.node_id == current.node_id => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = other;
                true
            }
            Ok(Some(other)) if other.node_id != current.node_id => {
                tracing::warn!(name = %other.name, "this folder has joined as another node: restart the node");
                false
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "cannot read the node's credential again");
                false
            }
        }
    }

    /// Renews the credential before it expires. Runs until dropped.
    pub(crate) async fn keep_fresh(&self, hub: &HubClient) {
        loop {
            let current = self.current();
            if current.token.is_none() {
                return std::future::pending().await;
            }
            sleep(current.renew_in(self.clock.now())).await;
            match hub.renew(current.node_id, current.authorization().as_ref()).await {
                Ok(given) => self.replace(hub, given),
                Err(error) => {
                    let unreachable = matches!(error, HubError::Unreachable { .. });
                    if !unreachable {
                        tracing::warn!(%error, "cannot renew the node's credential; trying again in a minute");
                    }
                    sleep(RETRY).await;
                    self.reread();
                }
            }
        }
    }

    fn replace(&self, hub: &HubClient, given: NodeCredential) {
        if given.node_id != self.current().node_id {
            tracing::error!("the hub sent the credential of another node, which is not used");
            return;
        }
        let renewed = Credential::new(hub, given, &self.clock);
        if let Err(error) = renewed.write(&self.data_dir) {
            // Use it anyway: the old one may have become invalid.
            tracing::error!(%error, "cannot store the renewed credential");
        }
        tracing::info!(expires_at = %renewed.expires_at, "the node's credential was renewed");
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
    }

    fn current(&self) -> Credential {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
