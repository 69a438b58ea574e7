//! Why a node does not start, or cannot go on.

use std::io;

use plexus_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the node's data folder cannot be used: {0}")]
    DataDir(#[source] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
