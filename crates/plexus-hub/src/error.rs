//! Errors that prevent the hub from starting.

use std::net::SocketAddr;
use std::path::PathBuf;

use plexus_auth::AuthError;
use plexus_store::StoreError;

use crate::tls::TlsError;

#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("cannot listen on {address} (use --listen to choose another address)")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot use the data folder: {0}")]
    DataDir(std::io::Error),
    #[error("{} is neither empty nor a data folder of Plexus; choose another one with --data-dir", .0.display())]
    ForeignDataDir(PathBuf),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Auth(#[from] AuthError),
}
