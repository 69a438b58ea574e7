//! Why a node does not start, or cannot go on.

use std::io;
use std::path::PathBuf;

use plexus_kit::findings::Problem;
use plexus_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the node's data folder cannot be used: {0}")]
    DataDir(#[source] io::Error),
    #[error("{} cannot be read as the credential of a node: {why}", path.display())]
    Credential { path: PathBuf, why: String },
    #[error(
        "another process is the node of the data folder {}{}: stop that one first, or give this one its own folder",
        path.display(),
        holder.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse { path: PathBuf, holder: Option<String> },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Policy(Vec<Problem>),
    #[error(transparent)]
    Store(#[from] StoreError),
}
