//! Runs commands in a sandbox: a launcher program starts first, drops the rights that the command must not have, and
//! then becomes the command.
//!
//! The launcher is this binary, run with a hidden command. It is single-threaded without a runtime, only drops its
//! own rights, and ends in `exec`; if any step fails, no command runs. It starts with an empty environment: the
//! command's variables, which the caller chose, are passed under names without a meaning to loaders and shells, and
//! are restored at the very end.

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
pub use launcher::{Launcher, MissingLevel, SandboxLevel, SandboxUnavailable};
pub use run::main;
pub use sandbox::Sandbox;

pub use crate::warden::Limits;

/// The hidden command of the binary, passed as its first argument.
pub const COMMAND: &str = "__launch";

/// A command and its restrictions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Program and arguments. Not serialized: they follow as separate arguments.
    #[serde(skip)]
    pub argv: Vec<OsString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// With limits, the launcher stays and watches the command: see [`crate::warden`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Set if it is already being watched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) watched: bool,
}
