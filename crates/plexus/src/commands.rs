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
use plexus_kit::{Clock, Environment, env};

use crate::cli::GlobalArgs;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
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

    /// The hub of the global flags, ready to be asked; nothing is sent yet.
    pub(crate) fn hub(&self) -> anyhow::Result<Hub> {
        Hub::new(self.target()?)
    }
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
