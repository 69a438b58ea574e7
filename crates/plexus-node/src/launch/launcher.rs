//! The program that launches, and what it can do on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{COMMAND, Launch};

/// Cheap to clone; all clones are one, and what was tried once is known to all.
#[derive(Debug, Clone)]
pub struct Launcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    program: PathBuf,
}

impl Launcher {
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self(Arc::new(Inner { program }))
    }

    #[must_use]
    pub fn program(&self) -> &Path {
        &self.0.program
    }

    /// Program and arguments that begin a command. Its environment is to be [`super::packed`].
    #[must_use]
    pub fn words(&self, launch: &Launch) -> Vec<OsString> {
        let spec = serde_json::to_string(launch).unwrap_or_default();
        let own = [self.0.program.clone().into_os_string(), COMMAND.into(), spec.into()];
        own.into_iter().chain(launch.argv.iter().cloned()).collect()
    }
}
