//! The machine, as its tools know it.

use std::path::{Path, PathBuf};

use plexus_kit::{Clock, Environment, Supervisor};

use crate::files::Files;
use crate::launch::{Held, Launcher, Missing, Sandbox, Unavailable};
use crate::policy::{Level, Policies, Policy};

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

impl Machine {
    /// What a command is to be put into; none where it is held by nothing.
    ///
    /// # Errors
    /// When the policy asks for what does not work here: nothing may be run then.
    pub fn sandbox(&self, policy: &Policy, cwd: &Path) -> Result<Option<Sandbox>, Unavailable> {
        match &self.launcher {
            Some(launcher) => launcher.sandbox(policy, &self.data_dir, cwd),
            None => self.held(policy).map(|_| None),
        }
    }

    /// The working folder, made if it does not exist; else why there is none.
    pub fn work_folder(&self) -> Result<PathBuf, String> {
        Files::of(self).work_folder().map_err(|error| error.to_string())
    }

    /// What commands are held by.
    ///
    /// # Errors
    /// As [`Self::sandbox`].
    pub fn held(&self, policy: &Policy) -> Result<Held, Unavailable> {
        let level = match (&self.launcher, policy.sandbox.level) {
            (Some(launcher), _) => return launcher.held(policy.sandbox),
            (None, Level::Auto | Level::None) => return Ok(Held::None),
            (None, Level::Landlock) => Held::Landlock,
            (None, Level::Bubblewrap) => Held::Bubblewrap,
        };
        Err(Unavailable(Missing { level, because: "this node has no launcher".to_owned() }))
    }
}
