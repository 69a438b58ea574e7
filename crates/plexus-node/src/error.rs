//! Errors of starting a node.

use std::io;
use std::path::PathBuf;

use plexus_kit::findings::Problem;
use plexus_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("cannot use the data folder of the node: {0}")]
    DataDir(#[source] io::Error),
    #[error("cannot read the credential of the node in {}: {why}", path.display())]
    Credential { path: PathBuf, why: String },
    #[error(
        "another process is already running the node of the data folder {}{}: stop it first, or use another folder",
        path.display(),
        holder.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse { path: PathBuf, holder: Option<String> },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Policy(Vec<Problem>),
    #[error(transparent)]
    Store(#[from] StoreError),
}
