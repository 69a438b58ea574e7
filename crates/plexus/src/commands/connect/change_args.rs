//! Arguments of the commands that change agents' files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plexus_bridge::ConflictPolicy;

/// Arguments of `connect` and `disconnect`.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Only for the project in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Write without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Show the changes without writing them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What to do with an entry that Plexus did not write, or that was changed since
    #[arg(long, value_name = "POLICY", value_enum, default_value_t)]
    pub(crate) policy: PolicyArg,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// Leave it and report it
    #[default]
    Skip,
    /// Set the values that Plexus needs and keep the rest
    Merge,
    /// Overwrite it, or remove it when disconnecting
    Replace,
}

impl From<PolicyArg> for ConflictPolicy {
    fn from(policy: PolicyArg) -> Self {
        match policy {
            PolicyArg::Skip => Self::Skip,
            PolicyArg::Merge => Self::Merge,
            PolicyArg::Replace => Self::Replace,
        }
    }
}
