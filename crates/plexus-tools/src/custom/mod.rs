//! User-defined tools: programs of the user, each with a manifest in a folder.
//!
//! Invariants:
//! - A file alone runs nothing. A tool is in the registry only while the configuration names it or an admin has enabled
//!   it; otherwise it cannot be called, like any missing tool.
//! - An invalid manifest disables only its own tool, and all its problems are reported at once.
//! - Files that users other than the hub's can write to are not run; this is checked on load and on every call.
//! - They run like all tools of the registry: nothing bypasses the dispatcher.

mod definition;
mod folder;
mod manifest;
mod ownership;
mod result;
mod run;
mod runner;
mod state;
mod test_tool;
mod tool_set;
mod trial;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use plexus_kit::Environment;
use plexus_proto::api::DefinedTool;

use crate::{Dispatcher, Registry, Tool};
use folder::Snapshot;
use runner::Report;
use tool_set::{LoadedTool, ToolSet, removed_tool};

pub use definition::check_name;
pub use manifest::schema_file;
pub use trial::try_out;

/// The file in the data folder that stores the enabled tools.
pub const STATE_FILE: &str = "tools-enabled.json";

/// Why a tool cannot be enabled or disabled.
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

/// Paths and settings.
#[derive(Debug, Clone)]
pub struct CustomOptions {
    /// The folder with the manifests.
    pub dir: PathBuf,
    /// The file that stores the enabled tools.
    pub state: PathBuf,
    /// The environment for `${env:…}`; programs get a small part of it.
    pub environment: Environment,
    /// The tools that the configuration enables.
    pub configured: Vec<String>,
}

/// Cheap to clone; clones share one state.
#[derive(Debug, Clone)]
pub struct CustomTools(Arc<Inner>);

struct Inner {
    dir: PathBuf,
    state: PathBuf,
    environment: Arc<Environment>,
    registry: Arc<Registry>,
    /// The tool `test_tool`, once a dispatcher exists.
    test_tool: OnceLock<Tool>,
    /// Held while files are read and the registry is updated; readers of lists wait for it.
    tool_set: Mutex<ToolSet>,
}

impl CustomTools {
    /// Reads the manifests and registers the enabled tools.
    #[must_use]
    pub fn open(options: CustomOptions, registry: Arc<Registry>) -> Self {
        let CustomOptions { dir, state, environment, configured } = options;
        let tool_set = ToolSet {
            configured: configured.into_iter().collect(),
            enabled_by_command: state::read(&state),
            ..ToolSet::default()
        };
        let environment = Arc::new(environment);
        let tools = Self(Arc::new(Inner {
            dir,
            state,
            environment,
            registry,
            test_tool: OnceLock::new(),
            tool_set: Mutex::new(tool_set),
        }));
        tools.reload();
        tools
    }

    /// Provides `test_tool`, with which models test enabled tools. It is registered only while at least one tool is
    /// enabled, so it costs no context otherwise.
    pub fn offer_tests(&self, dispatcher: &Dispatcher) {
        let _ = self.0.test_tool.set(test_tool::tool(Arc::downgrade(&self.0), dispatcher));
        self.apply(&mut self.lock_tools());
    }

    /// The folder with the manifests.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Reloads the manifests. Tools with an unchanged manifest stay registered.
    pub fn reload(&self) {
        let mut tool_set = self.lock_tools();
        // Captured before the files are read, so changes made meanwhile are picked up the next time.
        let now = Snapshot::of(&self.0.dir);
        self.read(&mut tool_set, now);
    }

    /// Reloads if manifests have changed and were stable between the last two checks, so a file is not read while it is
    /// being written.
    pub fn check_for_changes(&self) {
        let mut tool_set = self.lock_tools();
        let now = Snapshot::of(&self.0.dir);
        let settled = now == tool_set.last_checked;
        tool_set.last_checked = now.clone();
        if !settled {
            return;
        }
        let changed = now.changed_since(&tool_set.last_read);
        // The cause of a problem may be outside the manifest, such as the mode of its program, and be fixed there.
        let broken = || tool_set.tools.values().any(|loaded| loaded.entry.tool.is_err());
        if !changed.is_empty() || broken() {
            self.read(&mut tool_set, now.clone());
        }
        if !changed.is_empty() {
            tracing::info!(tools = ?changed, "manifests of user-defined tools have changed");
        }
        self.disable_removed(&mut tool_set, &now);
    }

    /// Disables tools without a manifest: a later tool of that name is a different one. Does nothing if the folder
    /// cannot be read.
    fn disable_removed(&self, tool_set: &mut ToolSet, now: &Snapshot) {
        let removed: BTreeSet<String> =
            tool_set.enabled_by_command.iter().filter(|name| now.lacks(name)).cloned().collect();
        if removed.is_empty() {
            return;
        }
        let enabled: BTreeSet<String> = tool_set.enabled_by_command.difference(&removed).cloned().collect();
        match state::write(&self.0.state, &enabled) {
            Ok(()) => {
                tracing::warn!(tools = ?removed, "disabled user-defined tools whose manifests were removed");
                tool_set.enabled_by_command = enabled;
            }
            // The next check retries.
            Err(error) => tracing::warn!(tools = ?removed, %error, "cannot disable user-defined tools"),
        }
    }

    /// Sets the tools that the configuration enables from now on.
    pub fn configure(&self, enabled: Vec<String>) {
        let mut tool_set = self.lock_tools();
        tool_set.configured = enabled.into_iter().collect();
        self.apply(&mut tool_set);
    }

    /// Every tool with a manifest, by name.
    #[must_use]
    pub fn list(&self) -> Vec<DefinedTool> {
        let tool_set = self.lock_tools();
        tool_set.tools.values().map(|loaded| tool_set.describe(loaded)).collect()
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<DefinedTool> {
        let tool_set = self.lock_tools();
        tool_set.tools.get(name).map(|loaded| tool_set.describe(loaded))
    }

    /// Enables a tool, also across restarts of the hub.
    pub fn enable(&self, name: &str) -> Result<DefinedTool, CustomError> {
        self.reload();
        let mut tool_set = self.lock_tools();
        let described = tool_set.described(name)?;
        if !described.problems.is_empty() {
            return Err(CustomError::Invalid(described.problems));
        }
        let mut enabled = tool_set.enabled_by_command.clone();
        if enabled.insert(name.to_owned()) {
            state::write(&self.0.state, &enabled)?;
            tool_set.enabled_by_command = enabled;
        }
        self.apply(&mut tool_set);
        tool_set.described(name)
    }

    /// Disables a tool; also one that was removed.
    pub fn disable(&self, name: &str) -> Result<DefinedTool, CustomError> {
        let mut tool_set = self.lock_tools();
        if tool_set.configured.contains(name) {
            return Err(CustomError::Configured(name.to_owned()));
        }
        let mut enabled = tool_set.enabled_by_command.clone();
        if enabled.remove(name) {
            state::write(&self.0.state, &enabled)?;
            tool_set.enabled_by_command = enabled;
            self.apply(&mut tool_set);
        } else {
            tool_set.described(name)?;
        }
        Ok(tool_set.described(name).unwrap_or_else(|_| removed_tool(name)))
    }

    /// A tool for a trial, enabled or not, and the report about its program.
    fn trial(&self, name: &str) -> Result<(Tool, Report), CustomError> {
        let tool_set = self.lock_tools();
        let loaded = tool_set.tools.get(name).ok_or_else(|| CustomError::Unknown(name.to_owned()))?;
        let definition = match &loaded.entry.tool {
            // Otherwise the call would be recorded under the name of another tool.
            Ok(definition) if !tool_set.clashing.contains(name) => definition.clone(),
            _ => return Err(CustomError::Invalid(tool_set.described(name)?.problems)),
        };
        let report = Report::default();
        Ok((self.0.tool(definition, Some(report.clone())), report))
    }

    fn read(&self, tool_set: &mut ToolSet, now: Snapshot) {
        let entries = folder::read(&self.0.dir, &self.0.environment);
        let mut before = std::mem::take(&mut tool_set.tools);
        for entry in entries {
            let unchanged = before.remove(&entry.name).filter(|old| old.is_of(&entry));
            if let Err(problems) = &entry.tool
                && tool_set.last_read != now
            {
                for problem in problems {
                    tracing::warn!(tool = entry.name, "{problem}");
                }
            }
            let tool = match (unchanged.and_then(|old| old.tool), &entry.tool) {
                (Some(tool), _) => Some(tool),
                (None, Ok(definition)) => Some(self.0.tool(definition.clone(), None)),
                (None, Err(_)) => None,
            };
            tool_set.tools.insert(entry.name.clone(), LoadedTool { entry, tool });
        }
        tool_set.last_read = now;
        self.apply(tool_set);
    }

    /// Registers the enabled, valid tools.
    fn apply(&self, tool_set: &mut ToolSet) {
        let on = tool_set.tools.iter().filter(|(name, _)| tool_set.enabled_by(name).is_some());
        let tools: Vec<Tool> = on.filter_map(|(_, loaded)| loaded.tool.clone()).collect();
        match (tools.is_empty(), self.0.test_tool.get()) {
            (false, Some(test_tool)) => self.0.registry.add([test_tool.clone()]),
            _ => self.0.registry.remove(&[test_tool::NAME]),
        }
        self.0.registry.set_custom(tools);
        let clashes = tool_set.tools.keys().filter(|name| self.0.registry.is_taken(name)).cloned().collect();
        if tool_set.clashing != clashes {
            for name in &clashes {
                tracing::warn!(
                    tool = name,
                    "skipped a user-defined tool that has the name of a tool of the hub"
                );
            }
            tool_set.clashing = clashes;
        }
        self.0.registry.set_absent(tool_set.absent());
    }

    fn lock_tools(&self) -> MutexGuard<'_, ToolSet> {
        self.0.tool_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomTools").field("dir", &self.dir).finish_non_exhaustive()
    }
}
