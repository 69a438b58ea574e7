//! What a command can reach, as it is told to the launcher.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::policy::FileRules;

/// Nothing in it is secret: it stands among the arguments of a process. Nothing in it can be changed by the command, which
/// begins after it was obeyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "level", rename_all = "snake_case")]
pub enum Sandbox {
    /// Rules of the kernel for files, and a filter of system calls.
    Landlock { files: FileRules, network: bool, own: Option<PathBuf> },
    /// A view of the file system of its own, and the same filter.
    Bubblewrap { files: FileRules, network: bool, program: PathBuf, cwd: PathBuf, own: Option<PathBuf> },
    /// The second half of it: already in that view.
    Inside,
}

impl Sandbox {
    /// The same with a folder that was made for this command: it can be written whatever the rules say of where it is.
    #[must_use]
    pub(crate) fn with_own(mut self, folder: PathBuf) -> Self {
        if let Self::Landlock { own, .. } | Self::Bubblewrap { own, .. } = &mut self {
            *own = Some(folder);
        }
        self
    }
}

/// What is left to be done when a sandbox was put on.
pub(super) enum Next {
    /// The command.
    Command,
    /// This program, which comes back with [`Sandbox::Inside`].
    #[cfg(target_os = "linux")]
    Through { program: PathBuf, arguments: Vec<std::ffi::OsString> },
}

#[cfg(target_os = "linux")]
impl Sandbox {
    /// Takes from this process what the command is not to have.
    pub(super) fn put_on(self) -> io::Result<Next> {
        use super::{bubblewrap, filter, kernel_rules, privileges};

        match self {
            Self::Landlock { files, network, own } => {
                privileges::give_up()?;
                kernel_rules::restrict(files, network, own.as_deref())?;
                let families = if network { filter::NETWORK } else { filter::NOTHING };
                filter::apply(families)?;
                Ok(Next::Command)
            }
            Self::Bubblewrap { files, network, program, cwd, own } => {
                let arguments = bubblewrap::arguments(files, network, &cwd, own.as_deref())?;
                Ok(Next::Through { program, arguments })
            }
            Self::Inside => {
                privileges::give_up()?;
                kernel_rules::keep_to_itself()?;
                filter::apply(filter::ISOLATED)?;
                Ok(Next::Command)
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Sandbox {
    pub(super) fn put_on(self) -> io::Result<Next> {
        Err(io::Error::other("there is no sandbox on this system"))
    }
}
