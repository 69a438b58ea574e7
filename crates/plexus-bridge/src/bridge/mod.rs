//! Connects agents, updates their instructions, and disconnects them.
//!
//! - A lock next to the ledger ensures that one process at a time changes files of agents.
//! - A change is planned on the file's current content, shown, and then applied to the content at that time: if an
//!   agent has rewritten its file in between, the same change is applied to the new content.

mod change;
mod connections;
mod plan;

pub use change::Change;
pub use connections::SyncResult;
pub use plan::{AgentServers, InstructionContent, Plan, ProxyCommand};

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_kit::{Clock, Environment, private_file};

use crate::agents::{self, Agent, Scope};
use crate::confined_path::ConfinedPath;
use crate::error::BridgeError;
use crate::ledger::{Connection, Ledger};
use crate::recovery;
use crate::replace::{NoStepObserver, StepObserver};

/// The subfolder of a data folder with the ledger and the backups.
pub const FOLDER: &str = "connect";
const LOCK: &str = "lock";
/// How long to wait for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The polling interval of waits.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The name of the entry in every file.
pub const SERVER: &str = "plexus";

/// The files of the agents of one user.
#[derive(Clone)]
pub struct Bridge {
    folder: PathBuf,
    environment: Environment,
    clock: Clock,
    steps: Arc<dyn StepObserver>,
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Bridge {
    /// `folder` has the ledger and the backups.
    #[must_use]
    pub fn new(folder: &Path, environment: &Environment, clock: Clock) -> Self {
        Self {
            folder: folder.to_owned(),
            environment: environment.clone(),
            clock,
            steps: Arc::new(NoStepObserver),
        }
    }

    /// The same with an observer of its steps.
    #[must_use]
    pub fn with_observer(self, steps: Arc<dyn StepObserver>) -> Self {
        Self { steps, ..self }
    }

    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Reads the ledger without taking the lock.
    pub fn ledger(&self) -> Result<Ledger, BridgeError> {
        Ledger::read(&self.folder)
    }

    /// The key of a connection.
    #[must_use]
    pub fn key(agent: &Agent, scope: &Scope) -> String {
        match scope {
            Scope::User => agent.id.to_owned(),
            Scope::Project(folder) => format!("{}@{}", agent.id, folder.display()),
        }
    }

    /// Takes the lock.
    fn lock(&self) -> Result<File, BridgeError> {
        let path = self.folder.join(LOCK);
        let file = private_file::open(&path).map_err(BridgeError::io(&path, "open"))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    self.sweep();
                    return Ok(file);
                }
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(POLL_INTERVAL)
                }
                Err(TryLockError::WouldBlock) => return Err(BridgeError::Busy(LOCK_TIMEOUT.as_secs())),
                Err(TryLockError::Error(error)) => return Err(BridgeError::io(&path, "lock")(error)),
            }
        }
    }

    /// Removes leftovers of a killed process. Requires the lock.
    fn sweep(&self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|ending| ending.to_string_lossy().starts_with("tmp")) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Reads the ledger after recovery from a crash. Takes the lock only if recovery is needed.
    pub(crate) fn recovered_ledger(&self) -> Result<Ledger, BridgeError> {
        let ledger = self.ledger()?;
        if ledger.pending.is_none() {
            return Ok(ledger);
        }
        let _lock = self.lock()?;
        self.recover_ledger()
    }

    /// Reads the ledger after recovery from a crash. Requires the lock.
    fn recover_ledger(&self) -> Result<Ledger, BridgeError> {
        let mut ledger = self.ledger()?;
        if let Some(pending) = ledger.pending.take() {
            recovery::recover(&mut ledger, &pending);
            ledger.write(&self.folder)?;
        }
        Ok(ledger)
    }

    /// The environment that locates files, as it was when the agent was connected.
    fn environment_of(&self, connection: Option<&Connection>) -> Environment {
        let Some(connection) = connection.filter(|connection| !connection.variables.is_empty()) else {
            return self.environment.clone();
        };
        let other = self.environment.all().filter(|(name, _)| !agents::is_location_variable(name));
        let other = other.map(|(name, value)| (name.to_owned(), value.to_owned()));
        other.chain(connection.variables.clone()).collect()
    }

    /// A file of a connection, checked to be a known file of its agent.
    pub(crate) fn file_location(
        &self,
        connection: &Connection,
        path: &Path,
    ) -> Result<ConfinedPath, BridgeError> {
        let scope = scope_of(connection);
        let agent = Agent::by_name(&connection.agent);
        let environment = self.environment_of(Some(connection));
        let locations = agent.into_iter().flat_map(|agent| agent.writable_paths(&environment, &scope));
        locations.into_iter().find(|location| location.path() == path).ok_or_else(|| not_allowed(path))
    }
}

fn not_allowed(path: &Path) -> BridgeError {
    BridgeError::refused(
        path,
        "is not a file of an agent in the current environment",
        "restore the variables that locate the agent's files",
    )
}

pub(crate) fn scope_of(connection: &Connection) -> Scope {
    connection.project.clone().map_or(Scope::User, Scope::Project)
}
