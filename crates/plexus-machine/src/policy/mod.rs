//! The policy of a machine: what may be done here, whatever a hub asks for.
//!
//! It is the owner's file, `node.toml` in the node's folder, and nothing that comes over a link changes it or is exempt from
//! it: neither who calls nor what the hub says of them plays a part. It is read anew when it has changed. A file with a
//! mistake is not taken: a node does not start with one, and one that runs stays with what it had.

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

/// In the folder of the node.
pub const FILE: &str = "node.toml";

/// All defaults, with what each means.
pub const DEFAULT: &str = include_str!("default.toml");

/// Everything that a policy says, checked and with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub tools: ToolRules,
    pub files: FileRules,
    /// The folder that is to be the working folder, see [`Self::work_folder`]; none on a machine without a home folder.
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

/// What a tool wants to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    Read,
    Write,
}

/// Real paths, without links in them, are compared with these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRules {
    pub read: Vec<PathPattern>,
    /// These can be read too.
    pub write: Vec<PathPattern>,
    pub read_only: Vec<PathPattern>,
    /// With all credentials and the node's own folder. Nothing overrides it.
    pub deny: Vec<PathPattern>,
}

/// Why a path is out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathRefused {
    #[error("credentials and what the owner denies are out of reach of every tool")]
    Denied,
    #[error("the policy of this machine lets it be read, and not written")]
    ReadOnly,
    #[error("it is outside of the folders that the policy of this machine lets tools read")]
    Unreadable,
    #[error("it is outside of the folders that the policy of this machine lets tools write")]
    Unwritable,
    #[error("the policy of this machine names this folder, and only its owner takes it away")]
    Named,
    #[error(
        "something in it is denied or read-only by the policy of this machine, so it cannot be taken, put or removed as a whole"
    )]
    HasExceptions,
    #[error(
        "something in it is denied or read-only by the policy of this machine, so commands can make nothing new in it"
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

/// For a snippet with all that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLimits {
    pub time: Duration,
    pub cpu: Duration,
    /// Bytes.
    pub memory: u64,
    /// Bytes of one file, and of all in its folder.
    pub file: u64,
    pub processes: u64,
    /// Bytes of each output that are kept.
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
    /// What holds where there is no file.
    #[must_use]
    pub fn standard(environment: &Environment, data_dir: &Path) -> Self {
        read::standard(environment, data_dir)
    }

    /// The same with folders that nothing opens, by every name that they have.
    fn also_denying(mut self, private: &[PathBuf]) -> Self {
        let real = private.iter().filter_map(|path| fs_err::canonicalize(path).ok());
        self.files.deny.extend(private.iter().cloned().chain(real).map(PathPattern::real));
        self
    }

    /// Whether a tool can be called here, and why not.
    pub fn check_tool(&self, name: &str) -> Result<(), &'static str> {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| glob::matches(pattern, name));
        if named(&self.tools.off) || !named(&self.tools.on) {
            return Err("the policy of this machine has it off");
        }
        // It is the same jobs, seen by another.
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
    /// Whether something may be done with a real path.
    pub fn check(&self, path: &Path, want: Want) -> Result<(), PathRefused> {
        let any = |patterns: &[PathPattern]| patterns.iter().any(|pattern| pattern.covers(path));
        if any(&self.deny) {
            return Err(PathRefused::Denied);
        }
        match want {
            Want::Read if any(&self.read) || any(&self.write) => Ok(()),
            Want::Read => Err(PathRefused::Unreadable),
            Want::Write if !any(&self.write) => Err(PathRefused::Unwritable),
            Want::Write if any(&self.read_only) => Err(PathRefused::ReadOnly),
            Want::Write => Ok(()),
        }
    }

    /// Whether something in this folder is denied: what is read there has to be looked at one by one.
    #[must_use]
    pub fn has_denied_below(&self, folder: &Path) -> bool {
        self.deny.iter().any(|pattern| pattern.is_below(folder))
    }

    /// Whether something in this folder is denied or read-only: it cannot be moved or removed as a whole.
    #[must_use]
    pub fn has_exceptions_below(&self, folder: &Path) -> bool {
        self.deny.iter().chain(&self.read_only).any(|pattern| pattern.is_below(folder))
    }
}

impl VariableRules {
    /// What a command gets of the node's own variables.
    pub fn passed<'e>(&'e self, environment: &'e Environment) -> impl Iterator<Item = (&'e str, &'e str)> {
        environment.all().filter(|(name, _)| self.pass.iter().any(|pattern| glob::matches(pattern, name)))
    }

    /// Whether a caller may set this variable.
    #[must_use]
    pub fn can_be_set(&self, name: &str) -> bool {
        self.set.iter().any(|pattern| glob::matches(pattern, name))
    }
}

/// The home folder of the node's user; a machine may have none.
pub(crate) fn home(environment: &Environment) -> PathBuf {
    let given = environment.get(env::HOME).map(PathBuf::from).filter(|home| home.is_absolute());
    given.unwrap_or_else(|| PathBuf::from("/"))
}

#[cfg(test)]
mod tests;
