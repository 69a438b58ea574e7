//! Why a hub did not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use plexus_auth::AuthError;
use plexus_store::StoreError;

use crate::tls::TlsError;

#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("cannot listen on {address} (another one is chosen with --listen)")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot use the data folder: {0}")]
    DataDir(std::io::Error),
    #[error("{} is not empty and not a data folder of Plexus; choose another with --data-dir", .0.display())]
    ForeignDataDir(PathBuf),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Auth(#[from] AuthError),
}
