//! The commands, one file each, and what all clients of the hub share.

pub(crate) mod audit;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod cp;
pub(crate) mod db;
pub(crate) mod disconnect;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod node;
pub(crate) mod outbox;
pub(crate) mod profile;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod shell;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod sync;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod up;
pub(crate) mod upstream;

use std::path::{Path, PathBuf};

use plexus_bridge::Grant;
use plexus_hub::{DataDirState, data_dir_state};
use plexus_kit::{Clock, Environment, env};

use crate::cli::GlobalArgs;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::hub_file::Occupant;
use crate::output::Output;
use crate::target::Target;

/// One run of a client command: where it prints and which hub it talks to.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) out: Output,
    global: &'a GlobalArgs,
    environment: &'a Environment,
}

impl<'a> Invocation<'a> {
    pub(crate) fn new(global: &'a GlobalArgs, environment: &'a Environment) -> Self {
        Self { out: Output::new(global.json, Clock::system(), environment), global, environment }
    }

    pub(crate) fn environment(&self) -> &Environment {
        self.environment
    }

    /// The data folder that was named on the command line.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.global.data_dir.as_deref()
    }

    /// The hub of the global flags, and what to present to it.
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        Target::resolve(self.global, self.environment)
    }

    /// Finds it again, as it may have changed.
    pub(crate) fn again(&self) -> impl Fn() -> anyhow::Result<Target> + Send + Sync + 'static {
        let (global, environment) = (self.global.clone(), self.environment.clone());
        move || Target::resolve(&global, &environment)
    }

    /// The hub that an agent was connected to.
    pub(crate) fn target_of(&self, grant: &Grant) -> anyhow::Result<Target> {
        Target::of_grant(grant, self.global, self.environment)
    }

    /// Finds that hub again, and who can make tokens there.
    pub(crate) fn maker_of(
        &self,
        hub: Option<String>,
    ) -> impl Fn() -> anyhow::Result<Target> + Send + Sync + 'static {
        let (global, environment) = (self.global.clone(), self.environment.clone());
        move || Target::maker_of(hub.clone(), &global, &environment)
    }

    /// Whether the user said which hub is meant.
    pub(crate) fn names_hub(&self) -> bool {
        self.global.hub.is_some() || self.environment.get(env::HUB).is_some()
    }

    /// Whether the user said which data folder is meant.
    pub(crate) fn names_folder(&self) -> bool {
        self.global.data_dir.is_some() || self.environment.get(env::DATA_DIR).is_some()
    }

    /// Whether the command line itself says so.
    pub(crate) fn has_hub_flag(&self) -> bool {
        self.global.hub.is_some()
    }

    /// The address of the hub that the user has named, as it was written.
    pub(crate) fn hub_address(&self) -> Option<&str> {
        self.global.hub.as_deref().or_else(|| self.environment.get(env::HUB))
    }

    /// The folder that keeps what this machine has of Plexus.
    pub(crate) fn data_folder(&self) -> anyhow::Result<PathBuf> {
        crate::target::data_dir(self.global, self.environment).ok_or_else(|| {
            Failure::new(Exit::Usage, "no data folder is known: HOME is not set")
                .hint("name one with --data-dir or PLEXUS_DATA_DIR")
                .into()
        })
    }

    /// The hub that a verdict is about: the one that was named, else the one that runs on the data folder and no other.
    pub(crate) fn hub_of_folder(&self) -> anyhow::Result<FolderHub> {
        if self.names_hub() {
            return Ok(FolderHub::Named(self.hub()?));
        }
        let folder = std::path::absolute(self.data_folder()?)?;
        Ok(match Occupant::of(&folder)? {
            Occupant::Hub(_) => FolderHub::Runs { hub: self.hub()?, folder },
            Occupant::Unready(pid) => FolderHub::Unready { folder, pid },
            // A machine that has no hub of its own may have one in a container, at the default address.
            Occupant::Nobody if !self.names_folder() && !is_used(&folder) => FolderHub::Default(self.hub()?),
            Occupant::Nobody => FolderHub::Down { folder },
        })
    }

    /// The hub of the global flags, ready to be asked; nothing is sent yet.
    pub(crate) fn hub(&self) -> anyhow::Result<Hub> {
        Hub::new(self.target()?)
    }
}

/// The hub on a data folder, see [`Invocation::hub_of_folder`].
#[derive(Debug)]
pub(crate) enum FolderHub {
    /// By --hub or its variable; what folder it has is not known.
    Named(Hub),
    /// Neither a hub nor a folder was named, and the default folder was never used: whatever answers at the default address.
    Default(Hub),
    Runs {
        hub: Hub,
        folder: PathBuf,
    },
    /// The folder is held by a process that takes no requests yet.
    Unready {
        folder: PathBuf,
        pid: Option<i32>,
    },
    Down {
        folder: PathBuf,
    },
}

/// Whether a hub was ever started on the folder.
pub(crate) fn is_used(folder: &Path) -> bool {
    matches!(data_dir_state(folder), Ok(DataDirState::Ours))
}

/// A variable with our name on it that nothing reads is most likely misspelt.
pub(crate) fn variable_warnings(environment: &Environment) -> impl Iterator<Item = String> {
    environment.unknown().into_iter().map(|(name, nearest)| match nearest {
        Some(nearest) => {
            format!("the variable {name} is set, but nothing reads it; did you mean {nearest}?")
        }
        None => format!("the variable {name} is set, but nothing reads it; is it misspelt?"),
    })
}
