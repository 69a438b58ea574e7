//! The machine that the tools work on.

use std::path::{Path, PathBuf};

use plexus_kit::{Clock, Environment, Supervisor};

use crate::files::Files;
use crate::launch::{Launcher, MissingLevel, Sandbox, SandboxLevel, SandboxUnavailable};
use crate::policy::{Level, Policies, Policy};

/// What a tool needs in addition to the context of a call.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The node's folder, readable only by its owner. A tool that stores files has its own subfolder.
    pub data_dir: PathBuf,
    pub environment: Environment,
    pub supervisor: Supervisor,
    pub clock: Clock,
    /// The policy of the machine.
    pub policy: Policies,
    /// The program that sets up the sandbox of a command: this program, except in tests. Without it there is no
    /// sandbox.
    pub launcher: Option<Launcher>,
}

impl Machine {
    /// The sandbox for a command; `None` if commands run without one.
    ///
    /// # Errors
    /// If the policy requires a level that does not work on this machine. No command may run then.
    pub fn sandbox(&self, policy: &Policy, cwd: &Path) -> Result<Option<Sandbox>, SandboxUnavailable> {
        match &self.launcher {
            Some(launcher) => launcher.sandbox(policy, &self.data_dir, cwd),
            None => self.sandbox_level(policy).map(|_| None),
        }
    }

    /// The working folder, created if it does not exist, or the reason there is none.
    pub fn work_folder(&self) -> Result<PathBuf, String> {
        Files::for_machine(self).work_folder().map_err(|error| error.to_string())
    }

    /// The sandbox level that applies to commands.
    ///
    /// # Errors
    /// As [`Self::sandbox`].
    pub fn sandbox_level(&self, policy: &Policy) -> Result<SandboxLevel, SandboxUnavailable> {
        let level = match (&self.launcher, policy.sandbox.level) {
            (Some(launcher), _) => return launcher.sandbox_level(policy.sandbox),
            (None, Level::Auto | Level::None) => return Ok(SandboxLevel::None),
            (None, Level::Landlock) => SandboxLevel::Landlock,
            (None, Level::Bubblewrap) => SandboxLevel::Bubblewrap,
        };
        Err(SandboxUnavailable(MissingLevel { level, because: "this node has no launcher".to_owned() }))
    }
}
