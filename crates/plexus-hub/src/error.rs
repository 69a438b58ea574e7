//! Why a hub did not start.

use std::net::SocketAddr;

use plexus_auth::AuthError;
use plexus_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(
        "cannot listen on {address}; if a hub is running already, use that one, or choose another address with --listen"
    )]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot use the data folder: {0}")]
    DataDir(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Auth(#[from] AuthError),
}
