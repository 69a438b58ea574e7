//! Encryption of the way to the hub: whom the node believes, and what it shows of itself.

use std::path::PathBuf;
use std::sync::Arc;

use plexus_mcp::tls::{TlsConfig, client_config};
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};

/// Files of a person, named on the command line or in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Authorities that are believed beside those of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Certificate and key that are shown to a hub that asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// In words: which file it is and what is wrong with it.
    pub fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let Self { ca, identity } = self.clone();
        client_config(TlsConfig { identity, ca }).map(Arc::new)
    }
}
