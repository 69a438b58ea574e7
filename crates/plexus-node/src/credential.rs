//! What a machine shows to its hub, in a file that only its owner may read.

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
use crate::hub::{Hub, HubError};
use crate::link::tls::TlsOptions;

const FILE: &str = "credential.json";
/// What is renewed when half of its time has passed is renewed again so soon if that fails.
const AGAIN: Duration = Duration::from_secs(60);
/// Where the clocks of hub and node differ so much that no time seems to be left.
const SHORTEST: Duration = Duration::from_secs(60);

/// Membership of a hub, as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// Address of the hub.
    pub hub: String,
    pub node_id: NodeId,
    pub name: String,
    /// None where a certificate says who the node is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// By this machine's clock.
    pub issued_at: Timestamp,
    /// By the hub's.
    pub expires_at: Timestamp,
    /// With which files it joined.
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
    pub fn new(hub: &Hub, given: NodeCredential, clock: &Clock) -> Self {
        let NodeCredential { node_id, name, token, expires_at } = given;
        let (hub, tls) = (hub.address().to_owned(), hub.files().clone());
        Self { hub, node_id, name, token, issued_at: clock.now(), expires_at, tls }
    }

    /// That of a data folder, if its machine has joined a hub.
    ///
    /// # Errors
    /// When the file cannot be read, others can read it, or it is damaged.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, NodeError> {
        let path = data_dir.join(FILE);
        let Some(content) = private_file::read(&path).map_err(NodeError::DataDir)? else { return Ok(None) };
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|error| NodeError::Credential { path, why: error.to_string() })
    }

    /// # Errors
    /// When the file cannot be written.
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

    /// Until it is to be renewed, counted from now.
    fn renew_in(&self, now: Timestamp) -> Duration {
        let between = |from: Timestamp, to: Timestamp| {
            u64::try_from(to.as_millisecond().saturating_sub(from.as_millisecond())).unwrap_or(0)
        };
        let half = Duration::from_millis(between(self.issued_at, self.expires_at)).max(SHORTEST) / 2;
        // A clock that was put back says that no time has passed.
        half.saturating_sub(Duration::from_millis(between(self.issued_at, now)))
    }
}

/// The credential that is in use, and its file.
#[derive(Debug)]
pub(crate) struct InUse {
    data_dir: PathBuf,
    current: Mutex<Credential>,
    clock: Clock,
}

impl InUse {
    pub(crate) fn new(data_dir: PathBuf, credential: Credential, clock: Clock) -> Self {
        Self { data_dir, current: Mutex::new(credential), clock }
    }

    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        self.current().authorization()
    }

    /// Looks whether there is another one in the file: the machine may have joined again. True: it is in use now.
    pub(crate) fn reread(&self) -> bool {
        let current = self.current();
        match Credential::read(&self.data_dir) {
            Ok(Some(other)) if other.token != current.token && other.node_id == current.node_id => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = other;
                true
            }
            Ok(Some(other)) if other.node_id != current.node_id => {
                tracing::warn!(name = %other.name, "this folder has joined as another node: start the node again");
                false
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "the credential cannot be read again");
                false
            }
        }
    }

    /// Renews it before it expires, for as long as this is waited for.
    pub(crate) async fn keep_fresh(&self, hub: &Hub) {
        loop {
            let current = self.current();
            if current.token.is_none() {
                return std::future::pending().await;
            }
            sleep(current.renew_in(self.clock.now())).await;
            match hub.renew(current.node_id, current.authorization().as_ref()).await {
                Ok(given) => self.replace(hub, given),
                Err(error) => {
                    let known = matches!(error, HubError::Unreachable { .. });
                    if !known {
                        tracing::warn!(%error, "the node's credential could not be renewed");
                    }
                    sleep(AGAIN).await;
                    self.reread();
                }
            }
        }
    }

    fn replace(&self, hub: &Hub, given: NodeCredential) {
        if given.node_id != self.current().node_id {
            tracing::error!("the hub sent the credential of another node; it is not used");
            return;
        }
        let renewed = Credential::new(hub, given, &self.clock);
        if let Err(error) = renewed.write(&self.data_dir) {
            // It is used all the same: the old one may be good for nothing by now.
            tracing::error!(%error, "the renewed credential cannot be stored");
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
