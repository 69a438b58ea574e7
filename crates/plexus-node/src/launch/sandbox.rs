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
    Landlock { files: FileRules, network: bool },
    /// A view of the file system of its own, and the same filter.
    Bubblewrap { files: FileRules, network: bool, program: PathBuf, cwd: PathBuf },
    /// The second half of it: already in that view.
    Inside,
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
            Self::Landlock { files, network } => {
                privileges::give_up()?;
                kernel_rules::restrict(files, network)?;
                let families = if network { filter::NETWORK } else { filter::NOTHING };
                filter::apply(families)?;
                Ok(Next::Command)
            }
            Self::Bubblewrap { files, network, program, cwd } => {
                let arguments = bubblewrap::arguments(files, network, &cwd)?;
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
