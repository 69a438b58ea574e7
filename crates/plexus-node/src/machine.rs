//! The machine, as its tools know it.

use std::path::PathBuf;

use plexus_kit::{Clock, Environment, Supervisor};

use crate::launch::Launcher;
use crate::policy::Policies;

/// What a tool of the machine needs beside the context of a call.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The node's folder, readable by its owner only; a tool that keeps files has a folder of its own in it.
    pub data_dir: PathBuf,
    pub environment: Environment,
    pub supervisor: Supervisor,
    pub clock: Clock,
    /// What may be done here.
    pub policy: Policies,
    /// The program that puts a command into its sandbox: this one, unless a test has another. Without it there is none.
    pub launcher: Option<Launcher>,
}
