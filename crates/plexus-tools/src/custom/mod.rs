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
mod manifest;
mod ownership;
mod result;
mod run;
mod state;
mod test_tool;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::future::BoxFuture;
use plexus_kit::Environment;
use plexus_proto::ErrorCode;
use plexus_proto::api::{DefinedTool, DefinedToolState, EnabledBy};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{CallError, Dispatcher, Outcome, Registry, Tool, ToolContext};
use definition::Definition;
use folder::{Entry, Snapshot};
use run::Ran;

pub use definition::usable_name as check_name;
pub use manifest::schema_file;
pub use trial::try_out;

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

#[derive(Default)]
struct Known {
    tools: BTreeMap<String, Loaded>,
    configured: BTreeSet<String>,
    switched_on: BTreeSet<String>,
    /// Those that have the name of a tool of the hub.
    clashing: BTreeSet<String>,
    /// The manifests that `tools` were read from, and those of the last look.
    read: Snapshot,
    looked: Snapshot,
}

/// A manifest, and the tool that is made from it.
struct Loaded {
    entry: Entry,
    tool: Option<Tool>,
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

impl Inner {
    /// A tool that runs a program.
    fn tool(&self, definition: Definition, report: Option<Report>) -> Tool {
        let spec = definition.spec();
        let runner = Arc::new(Runner {
            validator: definition.output_validator(),
            places: Semaphore::new(definition.concurrency),
            environment: self.environment.clone(),
            definition,
            report,
        });
        Tool::custom(
            spec,
            Arc::new(move |context: ToolContext, arguments: Value| -> BoxFuture<'static, _> {
                let runner = runner.clone();
                Box::pin(async move { runner.run(&context, &arguments).await })
            }),
        )
    }
}

/// Where it is told what became of a program that is tried out.
type Report = Arc<Mutex<Option<Ran>>>;

/// What a tool in the registry holds on to.
struct Runner {
    definition: Definition,
    validator: Option<jsonschema::Validator>,
    places: Semaphore,
    environment: Arc<Environment>,
    report: Option<Report>,
}

impl Runner {
    async fn run(&self, context: &ToolContext, arguments: &Value) -> Result<Outcome, CallError> {
        let definition = &self.definition;
        let place = tokio::time::timeout(definition.timeout, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            let message = format!(
                "{} calls of {} run already, the most allowed",
                definition.concurrency, definition.name
            );
            return Err(CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Wait for one to end and call again."));
        };
        let (ran, written) = run::run(definition, &self.environment, arguments, &context.cancel).await;
        if let Some(report) = &self.report {
            *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(ran);
        }
        let output = result::of(&definition.name, definition.output, self.validator.as_ref(), written?)?;
        Ok(Outcome::Ready(output))
    }
}

impl Loaded {
    /// Whether it was made from a manifest that says the same.
    fn is_of(&self, entry: &Entry) -> bool {
        matches!((&self.entry.tool, &entry.tool), (Ok(one), Ok(other)) if one.same_as(other))
    }
}

impl Known {
    fn enabled_by(&self, name: &str) -> Option<EnabledBy> {
        if self.configured.contains(name) {
            return Some(EnabledBy::Configuration);
        }
        self.switched_on.contains(name).then_some(EnabledBy::Command)
    }

    fn described(&self, name: &str) -> Result<DefinedTool, CustomError> {
        let loaded = self.tools.get(name).ok_or_else(|| CustomError::Unknown(name.to_owned()))?;
        Ok(self.describe(loaded))
    }

    fn describe(&self, Loaded { entry, .. }: &Loaded) -> DefinedTool {
        let mut problems: Vec<String> = match &entry.tool {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        };
        if self.clashing.contains(&entry.name) {
            problems.push(format!("{}: has the name of a tool of the hub; rename it", entry.file.display()));
        }
        let enabled_by = self.enabled_by(&entry.name);
        DefinedTool {
            name: entry.name.clone(),
            description: entry.tool.as_ref().map(|tool| tool.description.clone()).unwrap_or_default(),
            file: entry.file.display().to_string(),
            state: match (problems.is_empty(), enabled_by) {
                (false, _) => DefinedToolState::Invalid,
                (true, Some(_)) => DefinedToolState::Enabled,
                (true, None) => DefinedToolState::Disabled,
            },
            enabled_by,
            problems,
        }
    }
}

/// A tool that was switched on and has no manifest any more.
fn gone(name: &str) -> DefinedTool {
    DefinedTool {
        name: name.to_owned(),
        description: String::new(),
        file: String::new(),
        state: DefinedToolState::Disabled,
        enabled_by: None,
        problems: vec!["its manifest is gone".to_owned()],
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomTools").field("dir", &self.dir).finish_non_exhaustive()
    }
}
