//! What a command is held by: a program of ours that is started first, gives up what the command is not to have, and
//! becomes the command.
//!
//! It is this very binary, run again under another name of command. It has one thread and no runtime, takes rights away
//! from itself only, and ends in `exec`; where something of that fails, nothing is run. It begins with an empty
//! environment: what the command is to have travels under names that mean nothing to a loader or a shell, because the
//! caller chose them, and is put back at the very end.

#[cfg(target_os = "linux")]
mod bubblewrap;
mod environment;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod kernel_rules;
mod launcher;
#[cfg(target_os = "linux")]
mod privileges;
mod run;
mod sandbox;
#[cfg(target_os = "linux")]
mod view;

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

pub use environment::packed;
pub use launcher::{Held, Launcher, Missing, Unavailable};
pub use run::main;
pub use sandbox::Sandbox;

pub use crate::warden::Limits;

/// The hidden command of the binary, and its first argument.
pub const COMMAND: &str = "__launch";

/// A command, and what it is held by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Program and arguments. Not a part of what is written down: it stands after it, as it is.
    #[serde(skip)]
    pub argv: Vec<OsString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// With limits, the launcher stays and watches what it has launched: see [`crate::warden`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// It is watched already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) watched: bool,
}
