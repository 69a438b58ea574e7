//! TLS settings for the link: trusted authorities and the client certificate.

use std::path::PathBuf;
use std::sync::Arc;

use plexus_mcp::tls::{TlsConfig, client_config};
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};

/// Files of the user, named on the command line or in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Authorities that are trusted in addition to those of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Client certificate and key, for a hub that requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// Describes the file and its problem.
    pub fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let Self { ca, identity } = self.clone();
        client_config(TlsConfig { identity, ca }).map(Arc::new)
    }
}
