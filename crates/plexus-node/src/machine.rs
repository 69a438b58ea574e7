//! The machine that tools run on, as they are given it.

use std::path::PathBuf;
use std::sync::Arc;

use plexus_kit::{Clock, Environment, Supervisor};

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Folder of the node; each tool has one of its own in it.
    pub data_dir: PathBuf,
    /// What the node was started with. Programs that it starts get a part of it only.
    pub environment: Arc<Environment>,
    pub supervisor: Supervisor,
    pub clock: Clock,
}
