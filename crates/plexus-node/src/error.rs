//! Why a node does not start, or cannot go on.

use std::io;
use std::path::PathBuf;

use plexus_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the node's data folder cannot be used: {0}")]
    DataDir(#[source] io::Error),
    #[error("{} cannot be read as the credential of a node: {why}", path.display())]
    Credential { path: PathBuf, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}
