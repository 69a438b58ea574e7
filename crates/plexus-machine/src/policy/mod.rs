//! The policy of a machine: what tools may do on it, whatever a hub requests.
//!
//! The policy is the owner's file `node.toml` in the node's folder. Nothing that arrives over a link can change it or
//! is exempt from it; neither the caller nor the hub's statements about the caller matter. The file is reloaded when
//! it changes. A file with a mistake is rejected: a node does not start with one, and a running node keeps its
//! previous policy.

mod commands;
mod credentials;
mod current;
mod document;
mod paths;
mod read;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_kit::{Environment, env, glob};
use serde::{Deserialize, Serialize};

pub use commands::{CommandRefused, CommandRules};
pub use current::{Policies, check};
pub use document::{Level, schema_file};
pub use paths::PathPattern;
pub use work::NoWorkFolder;

/// The file name, in the node's folder.
pub const FILE: &str = "node.toml";

/// All defaults, with comments.
pub const DEFAULT: &str = include_str!("default.toml");

/// A validated policy with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub tools: ToolRules,
    pub files: FileRules,
    /// The intended working folder, see [`Self::work_folder`]; `None` on a machine without a home folder.
    pub work: Option<PathBuf>,
    pub commands: CommandRules,
    pub environment: VariableRules,
    pub sandbox: SandboxRules,
    pub code: CodeLimits,
    pub ssh: SshRules,
    pub images: ImageRules,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRules {
    pub on: Vec<String>,
    pub off: Vec<String>,
}

/// The kind of access that a tool requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    Read,
    Write,
}

/// Rules that real paths (without symlinks) are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRules {
    pub read: Vec<PathPattern>,
    /// Also readable.
    pub write: Vec<PathPattern>,
    pub read_only: Vec<PathPattern>,
    /// Includes all credentials and the node's own folder. Takes precedence over all other rules.
    pub deny: Vec<PathPattern>,
}

/// The reason a path cannot be accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathRefused {
    #[error("no tool can access credentials or paths that the owner denies")]
    Denied,
    #[error("the policy of this machine makes it read-only")]
    ReadOnly,
    #[error("it is outside the folders that the policy of this machine lets tools read")]
    Unreadable,
    #[error("it is outside the folders that the policy of this machine lets tools write")]
    Unwritable,
    #[error("the policy of this machine names this folder, so only the owner can move or remove it")]
    Named,
    #[error(
        "the policy of this machine denies or protects something in it, so it cannot be copied, moved or removed as a whole"
    )]
    HasExceptions,
    #[error(
        "the policy of this machine denies or protects something in it, so commands cannot create files in it"
    )]
    HasProtected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableRules {
    pub pass: Vec<String>,
    pub set: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxRules {
    pub level: Level,
    pub network: bool,
}

/// Limits of a snippet, including all processes that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLimits {
    pub time: Duration,
    pub cpu: Duration,
    /// Bytes.
    pub memory: u64,
    /// Bytes of one file, and of all files in the snippet's folder.
    pub file: u64,
    pub processes: u64,
    /// Bytes retained of each output stream.
    pub output: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshRules {
    pub hosts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageRules {
    pub urls: bool,
    pub private_networks: bool,
}

impl Policy {
    /// The policy without a file.
    #[must_use]
    pub fn standard(environment: &Environment, data_dir: &Path) -> Self {
        read::standard(environment, data_dir)
    }

    /// Adds denied folders, each by its given and its real path.
    fn with_denied(mut self, private: &[PathBuf]) -> Self {
        let real = private.iter().filter_map(|path| fs_err::canonicalize(path).ok());
        self.files.deny.extend(private.iter().cloned().chain(real).map(PathPattern::real));
        self
    }

    /// Checks whether a tool can be called on this machine.
    pub fn check_tool(&self, name: &str) -> Result<(), &'static str> {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| glob::matches(pattern, name));
        if named(&self.tools.off) || !named(&self.tools.on) {
            return Err("the policy of this machine disables it");
        }
        // The console shows the same jobs, from another client.
        if name == crate::tools::CONSOLE {
            return self.check_tool(crate::tools::TERMINAL);
        }
        // Code can start any program.
        if name == crate::tools::CODE_EXEC && self.commands.are_restricted() {
            return Err("the policy of this machine allows certain commands only, and code can run any");
        }
        Ok(())
    }
}

impl FileRules {
    /// Checks access to a real path.
    pub fn check(&self, path: &Path, access: AccessKind) -> Result<(), PathRefused> {
        let any = |patterns: &[PathPattern]| patterns.iter().any(|pattern| pattern.covers(path));
        if any(&self.deny) {
            return Err(PathRefused::Denied);
        }
        match access {
            AccessKind::Read if any(&self.read) || any(&self.write) => Ok(()),
            AccessKind::Read => Err(PathRefused::Unreadable),
            AccessKind::Write if !any(&self.write) => Err(PathRefused::Unwritable),
            AccessKind::Write if any(&self.read_only) => Err(PathRefused::ReadOnly),
            AccessKind::Write => Ok(()),
        }
    }

    /// Whether something below this folder is denied, so that each path in it must be checked.
    #[must_use]
    pub fn has_denied_below(&self, folder: &Path) -> bool {
        self.deny.iter().any(|pattern| pattern.is_below(folder))
    }

    /// Whether something below this folder is denied or read-only, so that it cannot be moved or removed as a whole.
    #[must_use]
    pub fn has_exceptions_below(&self, folder: &Path) -> bool {
        self.deny.iter().chain(&self.read_only).any(|pattern| pattern.is_below(folder))
    }
}

impl VariableRules {
    /// The node's own variables that a command inherits.
    pub fn passed<'e>(&'e self, environment: &'e Environment) -> impl Iterator<Item = (&'e str, &'e str)> {
        environment.all().filter(|(name, _)| self.pass.iter().any(|pattern| glob::matches(pattern, name)))
    }

    /// Whether a caller may set this variable.
    #[must_use]
    pub fn can_be_set(&self, name: &str) -> bool {
        self.set.iter().any(|pattern| glob::matches(pattern, name))
    }
}

/// The home folder of the node's user; the root if it has none.
pub(crate) fn home(environment: &Environment) -> PathBuf {
    let configured = environment.get(env::HOME).map(PathBuf::from).filter(|home| home.is_absolute());
    configured.unwrap_or_else(|| PathBuf::from("/"))
}

#[cfg(test)]
mod tests;
