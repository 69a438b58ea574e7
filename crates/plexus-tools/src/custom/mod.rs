//! Tools that are programs of the user: a manifest and an executable in a folder.
//!
//! What always holds:
//! - A file alone runs nothing. A tool is in the registry only while it is named in the configuration, or was switched on
//!   by an admin; what is not there cannot be called, like anything else that does not exist.
//! - One manifest that is wrong takes out its own tool only, and says everything that is wrong with it at once.
//! - What others than the hub's user can write to is not run, neither when it is read nor when it is called.
//! - The registry runs them as it does all tools: nothing here goes around the dispatcher.

mod definition;
mod folder;
mod known;
mod manifest;
mod ownership;
mod result;
mod run;
mod runner;
mod state;
mod test_tool;
mod trial;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use plexus_kit::Environment;
use plexus_proto::api::DefinedTool;

use crate::{Dispatcher, Registry, Tool};
use folder::Snapshot;
use known::{Known, Loaded, gone};
use runner::Report;

pub use definition::usable_name as check_name;
pub use manifest::schema_file;
pub use trial::try_out;

/// In the data folder, the file that keeps what was switched on.
pub const STATE_FILE: &str = "tools-enabled.json";

/// Why a tool cannot be switched on or off.
#[derive(Debug, thiserror::Error)]
pub enum CustomError {
    #[error("there is no user-defined tool {0:?}")]
    Unknown(String),
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    #[error("{0} is named in the setting `tools.enabled`")]
    Configured(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Where things are.
#[derive(Debug, Clone)]
pub struct CustomOptions {
    /// The folder with the manifests.
    pub dir: PathBuf,
    /// The file that keeps what was switched on.
    pub state: PathBuf,
    /// What `${env:…}` is looked up in, and what a program gets a little of.
    pub environment: Environment,
    /// What the configuration switches on.
    pub configured: Vec<String>,
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct CustomTools(Arc<Inner>);

struct Inner {
    dir: PathBuf,
    state: PathBuf,
    environment: Arc<Environment>,
    registry: Arc<Registry>,
    /// The tool that tries these out, once there is a dispatcher for it.
    test_tool: OnceLock<Tool>,
    /// Held while files are read and the registry is told; readers of lists wait for that.
    known: Mutex<Known>,
}

impl CustomTools {
    /// Reads the manifests and puts into the registry what is switched on.
    #[must_use]
    pub fn open(options: CustomOptions, registry: Arc<Registry>) -> Self {
        let CustomOptions { dir, state, environment, configured } = options;
        let known = Known {
            configured: configured.into_iter().collect(),
            switched_on: state::read(&state),
            ..Known::default()
        };
        let environment = Arc::new(environment);
        let tools = Self(Arc::new(Inner {
            dir,
            state,
            environment,
            registry,
            test_tool: OnceLock::new(),
            known: Mutex::new(known),
        }));
        tools.reload();
        tools
    }

    /// Has models try out what is switched on, with `test_tool`, which is there while any is: who has none of these tools
    /// does not pay for it.
    pub fn offer_tests(&self, dispatcher: &Dispatcher) {
        let _ = self.0.test_tool.set(test_tool::tool(Arc::downgrade(&self.0), dispatcher));
        self.apply(&mut self.known());
    }

    /// The folder with the manifests.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Reads the manifests again. Tools whose manifest has not changed stay as they are.
    pub fn reload(&self) {
        let mut known = self.known();
        // Taken before the files are read: what changes meanwhile is read again the next time.
        let now = Snapshot::of(&self.0.dir);
        self.read(&mut known, now);
    }

    /// The same where manifests have changed since, and have not between this look and the one before: a file is not
    /// read while it is written.
    pub fn look(&self) {
        let mut known = self.known();
        let now = Snapshot::of(&self.0.dir);
        let settled = now == known.looked;
        known.looked = now.clone();
        let changed = now != known.read;
        // What is wrong with one may lie elsewhere, such as in the mode of its program, and be put right there.
        let broken = || known.tools.values().any(|loaded| loaded.entry.tool.is_err());
        if settled && (changed || broken()) {
            self.read(&mut known, now);
            if changed {
                tracing::info!(tools = ?known.tools.keys(), "manifests of user-defined tools have changed");
            }
        }
    }

    /// Takes what the configuration switches on from now on.
    pub fn configure(&self, enabled: Vec<String>) {
        let mut known = self.known();
        known.configured = enabled.into_iter().collect();
        self.apply(&mut known);
    }

    /// Every tool there is a manifest for, by name.
    #[must_use]
    pub fn list(&self) -> Vec<DefinedTool> {
        let known = self.known();
        known.tools.values().map(|loaded| known.describe(loaded)).collect()
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<DefinedTool> {
        let known = self.known();
        known.tools.get(name).map(|loaded| known.describe(loaded))
    }

    /// Switches a tool on, over a restart of the hub too.
    pub fn enable(&self, name: &str) -> Result<DefinedTool, CustomError> {
        self.reload();
        let mut known = self.known();
        let described = known.described(name)?;
        if !described.problems.is_empty() {
            return Err(CustomError::Invalid(described.problems));
        }
        let mut enabled = known.switched_on.clone();
        if enabled.insert(name.to_owned()) {
            state::write(&self.0.state, &enabled)?;
            known.switched_on = enabled;
        }
        self.apply(&mut known);
        known.described(name)
    }

    /// Switches a tool off again. One that was removed can be switched off too.
    pub fn disable(&self, name: &str) -> Result<DefinedTool, CustomError> {
        let mut known = self.known();
        if known.configured.contains(name) {
            return Err(CustomError::Configured(name.to_owned()));
        }
        let mut enabled = known.switched_on.clone();
        if enabled.remove(name) {
            state::write(&self.0.state, &enabled)?;
            known.switched_on = enabled;
            self.apply(&mut known);
        } else {
            known.described(name)?;
        }
        Ok(known.described(name).unwrap_or_else(|_| gone(name)))
    }

    /// A tool to try out, whether or not it is switched on, and where it is told what became of its program.
    fn trial(&self, name: &str) -> Result<(Tool, Report), CustomError> {
        let known = self.known();
        let loaded = known.tools.get(name).ok_or_else(|| CustomError::Unknown(name.to_owned()))?;
        let definition = match &loaded.entry.tool {
            Ok(definition) => definition.clone(),
            Err(_) => return Err(CustomError::Invalid(known.described(name)?.problems)),
        };
        let report = Report::default();
        Ok((self.0.tool(definition, Some(report.clone())), report))
    }

    fn read(&self, known: &mut Known, now: Snapshot) {
        let entries = folder::read(&self.0.dir, &self.0.environment);
        let mut before = std::mem::take(&mut known.tools);
        for entry in entries {
            let kept = before.remove(&entry.name).filter(|old| old.is_of(&entry));
            if let Err(problems) = &entry.tool
                && known.read != now
            {
                for problem in problems {
                    tracing::warn!(tool = entry.name, "{problem}");
                }
            }
            let tool = match (kept.and_then(|old| old.tool), &entry.tool) {
                (Some(tool), _) => Some(tool),
                (None, Ok(definition)) => Some(self.0.tool(definition.clone(), None)),
                (None, Err(_)) => None,
            };
            known.tools.insert(entry.name.clone(), Loaded { entry, tool });
        }
        known.read = now;
        self.apply(known);
    }

    /// Makes the registry have what is switched on and in order.
    fn apply(&self, known: &mut Known) {
        let on = known.tools.iter().filter(|(name, _)| known.enabled_by(name).is_some());
        let tools: Vec<Tool> = on.filter_map(|(_, loaded)| loaded.tool.clone()).collect();
        match (tools.is_empty(), self.0.test_tool.get()) {
            (false, Some(test_tool)) => self.0.registry.add([test_tool.clone()]),
            _ => self.0.registry.remove(&[test_tool::NAME]),
        }
        self.0.registry.set_custom(tools);
        let clashes = known.tools.keys().filter(|name| self.0.registry.is_taken(name)).cloned().collect();
        if known.clashing != clashes {
            for name in &clashes {
                tracing::warn!(
                    tool = name,
                    "a user-defined tool has the name of a tool of the hub and is left out"
                );
            }
            known.clashing = clashes;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomTools").field("dir", &self.dir).finish_non_exhaustive()
    }
}
