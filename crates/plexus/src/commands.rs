//! The commands, one file each, and what all clients of the hub share.

pub(crate) mod audit;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod up;

use plexus_kit::{Clock, Environment};

use crate::cli::GlobalArgs;
use crate::client::Hub;
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
        Self { out: Output::new(global.json, Clock::system()), global, environment }
    }

    /// The hub of the global flags, ready to be asked; nothing is sent yet.
    pub(crate) fn hub(&self) -> anyhow::Result<Hub> {
        Hub::new(Target::resolve(self.global, self.environment)?)
    }
}
