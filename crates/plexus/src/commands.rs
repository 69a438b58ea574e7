//! The commands, one file each, and the context that all clients of the hub share.

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
use crate::target::{self, Target};

/// The context of a command: its output, the global flags and the environment.
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

    /// The data folder given on the command line.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.global.data_dir.as_deref()
    }

    /// The hub that the global flags and the environment select, and its credential.
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        Target::resolve(self.global, self.environment)
    }

    /// A function that resolves [`Self::target`] again, because it can change over time.
    pub(crate) fn target_resolver(&self) -> impl Fn() -> anyhow::Result<Target> + Send + Sync + 'static {
        let (global, environment) = (self.global.clone(), self.environment.clone());
        move || Target::resolve(&global, &environment)
    }

    /// The hub that an agent is connected to, with the agent's token.
    pub(crate) fn grant_target(&self, grant: &Grant) -> anyhow::Result<Target> {
        Target::of_grant(grant, self.global, self.environment)
    }

    /// A function that resolves the hub on this machine with its admin token, which can create tokens.
    pub(crate) fn local_admin_resolver(
        &self,
        hub: Option<String>,
    ) -> impl Fn() -> anyhow::Result<Target> + Send + Sync + 'static {
        let (global, environment) = (self.global.clone(), self.environment.clone());
        move || Target::local_admin(hub.clone(), &global, &environment)
    }

    /// Whether the user named a hub, by flag or variable.
    pub(crate) fn names_hub(&self) -> bool {
        self.hub_address().is_some()
    }

    /// Whether the user named a data folder, by flag or variable.
    pub(crate) fn names_folder(&self) -> bool {
        self.global.data_dir.is_some() || self.environment.get(env::DATA_DIR).is_some()
    }

    /// Whether the user named a hub on the command line.
    pub(crate) fn has_hub_flag(&self) -> bool {
        self.global.hub.is_some()
    }

    /// The hub's URL as the user wrote it. None if the user named no hub.
    pub(crate) fn hub_address(&self) -> Option<&str> {
        target::hub_text(self.global, self.environment).map(|(text, _)| text)
    }

    /// The data folder of this machine.
    pub(crate) fn data_folder(&self) -> anyhow::Result<PathBuf> {
        target::data_dir(self.global, self.environment).ok_or_else(|| {
            Failure::new(Exit::Usage, "no data folder is known: HOME is not set")
                .hint("set one with --data-dir or PLEXUS_DATA_DIR")
                .into()
        })
    }

    /// The hub that a report is about: the one that the user named, else only the one that runs on the data folder.
    pub(crate) fn hub_of_folder(&self) -> anyhow::Result<FolderHub> {
        if self.names_hub() {
            return Ok(FolderHub::Named(self.hub()?));
        }
        let folder = std::path::absolute(self.data_folder()?)?;
        Ok(match Occupant::of(&folder)? {
            Occupant::Hub(_) => FolderHub::Runs { hub: self.hub()?, folder },
            Occupant::Unready(pid) => FolderHub::Unready { folder, pid },
            // The hub of a machine without a data folder can run in a container, at the default address.
            Occupant::None if !self.names_folder() && !is_used(&folder) => FolderHub::Default(self.hub()?),
            Occupant::None => FolderHub::Down { folder },
        })
    }

    /// A client for [`Self::target`]. Sends nothing yet.
    pub(crate) fn hub(&self) -> anyhow::Result<Hub> {
        Hub::new(self.target()?)
    }
}

/// The result of [`Invocation::hub_of_folder`].
#[derive(Debug)]
pub(crate) enum FolderHub {
    /// Named by --hub or PLEXUS_HUB. Its data folder is unknown.
    Named(Hub),
    /// The hub at the default address: the user named neither a hub nor a folder, and the default folder was never
    /// used.
    Default(Hub),
    Runs {
        hub: Hub,
        folder: PathBuf,
    },
    /// A process that does not accept requests yet holds the folder.
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

/// Warnings about variables that begin with `PLEXUS_` but are unknown. They are most likely misspelled.
pub(crate) fn variable_warnings(environment: &Environment) -> impl Iterator<Item = String> {
    environment.unknown().into_iter().map(|(name, nearest)| match nearest {
        Some(nearest) => {
            format!("unknown environment variable {name}; did you mean {nearest}?")
        }
        None => format!("unknown environment variable {name}; is it misspelled?"),
    })
}
