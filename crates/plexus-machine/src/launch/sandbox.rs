//! The description of a sandbox for the launcher.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::policy::FileRules;

/// It contains no secrets, because it is visible in the arguments of a process. The command cannot change it, because
/// it starts after the sandbox is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "level", rename_all = "snake_case")]
pub enum Sandbox {
    /// Landlock rules for files, and a system call filter.
    Landlock { files: FileRules, network: bool, own: Option<PathBuf> },
    /// A separate view of the file system, and the same filter.
    Bubblewrap { files: FileRules, network: bool, program: PathBuf, cwd: PathBuf, own: Option<PathBuf> },
    /// The second stage of Bubblewrap, inside that view.
    Inside,
}

impl Sandbox {
    /// Adds a folder that was created for this command: it is writable whatever the rules say about its parents.
    #[must_use]
    pub(crate) fn with_own(mut self, folder: PathBuf) -> Self {
        if let Self::Landlock { own, .. } | Self::Bubblewrap { own, .. } = &mut self {
            *own = Some(folder);
        }
        self
    }
}

/// The next step after a sandbox was applied.
pub(super) enum Next {
    /// Execute the command.
    Command,
    /// Execute `bwrap`, which runs this program again with [`Sandbox::Inside`].
    #[cfg(target_os = "linux")]
    ExecBubblewrap { program: PathBuf, arguments: Vec<std::ffi::OsString> },
}

#[cfg(target_os = "linux")]
impl Sandbox {
    /// Applies the sandbox to this process.
    pub(super) fn apply_to_self(self) -> io::Result<Next> {
        use super::{bubblewrap, filter, kernel_rules, privileges};

        match self {
            Self::Landlock { files, network, own } => {
                privileges::drop_capabilities()?;
                kernel_rules::restrict(files, network, own.as_deref())?;
                let families = if network { filter::NETWORK_FAMILIES } else { filter::NO_FAMILIES };
                filter::apply(families)?;
                Ok(Next::Command)
            }
            Self::Bubblewrap { files, network, program, cwd, own } => {
                let arguments = bubblewrap::arguments(files, network, &cwd, own.as_deref())?;
                Ok(Next::ExecBubblewrap { program, arguments })
            }
            Self::Inside => {
                privileges::drop_capabilities()?;
                kernel_rules::restrict_scope()?;
                filter::apply(filter::NAMESPACE_FAMILIES)?;
                Ok(Next::Command)
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Sandbox {
    pub(super) fn apply_to_self(self) -> io::Result<Next> {
        Err(io::Error::other("there is no sandbox on this system"))
    }
}
