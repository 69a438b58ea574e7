//! Manages the agents of one machine: for the hub on its own machine, for a node on another, and for commands of a
//! user.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plexus_kit::{Clock, Environment};
use plexus_proto::TokenId;
use plexus_proto::api::{
    ExternalAgent, ExternalAgentInstructions, ExternalAgentSync, InstructionFile, RemovedExternalAgent,
};

use url::Url;

use crate::agents::{Agent, InstalledAgent, VersionCache, detect, detect_all};
use crate::bridge::{Bridge, InstructionContent, Plan};
use crate::bundle::Bundle;
use crate::entry::ConflictPolicy;
use crate::error::BridgeError;
use crate::grant::Grants;
use crate::ledger::{Connection, FileRecord, ManagedPart};

/// How long detection results are cached: detecting a version starts a program.
const CACHE_LIFETIME: Duration = Duration::from_secs(60);

/// The most files that instructions consist of, and the most bytes of them, from any source.
pub const MAX_INSTRUCTION_FILES: usize = 16;
pub const MAX_INSTRUCTION_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct AgentManager {
    bridge: Bridge,
    grants: Grants,
    /// The hub whose connections are managed; none for all connections of the user.
    hub: Option<Option<Url>>,
    found: Mutex<Option<DetectionCache>>,
    versions: VersionCache,
}

/// The detection results and their time.
#[derive(Debug)]
struct DetectionCache {
    at: Instant,
    found: Vec<(&'static Agent, InstalledAgent)>,
}

/// The result of removing a connection.
#[derive(Debug, Default)]
pub struct RemovedConnection {
    /// The changed or removed files.
    pub written: Vec<std::path::PathBuf>,
    pub problems: Vec<BridgeError>,
    /// Whether it was removed completely.
    pub is_complete: bool,
    /// The tokens of an agent without any remaining connection.
    pub tokens: Vec<TokenId>,
}

impl AgentManager {
    /// `folder` is the ledger's folder.
    #[must_use]
    pub fn new(folder: &Path, environment: &Environment, clock: Clock) -> Self {
        Self {
            versions: VersionCache::in_folder(folder, clock.clone()),
            bridge: Bridge::new(folder, environment, clock),
            grants: Grants::new(folder),
            found: Mutex::default(),
            hub: None,
        }
    }

    /// The same for a hub, which manages only its own connections. Without a URL it is the hub of this machine.
    #[must_use]
    pub fn for_hub(self, url: Option<&str>) -> Self {
        // An invalid URL has no connections.
        Self { hub: Some(url.and_then(|url| Url::parse(url).ok())), ..self }
    }

    fn is_ours(&self, connection: &Connection) -> bool {
        let Some(hub) = &self.hub else { return true };
        match (hub, &connection.hub) {
            (None, None) => true,
            (Some(hub), Some(url)) => Url::parse(url).is_ok_and(|url| url.origin() == hub.origin()),
            _ => false,
        }
    }

    #[must_use]
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// The installed agents, from the cache if it is fresh.
    #[must_use]
    pub fn installed_agents(&self) -> Vec<(&'static Agent, InstalledAgent)> {
        let mut cached = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match cached.as_ref().filter(|cache| cache.at.elapsed() < CACHE_LIFETIME) {
            Some(cache) => cache.found.clone(),
            None => {
                let found = detect_all(self.bridge.environment(), &self.versions);
                *cached = Some(DetectionCache { at: Instant::now(), found: found.clone() });
                found
            }
        }
    }

    /// One installed agent, without detecting the others.
    #[must_use]
    pub fn installed_agent(&self, agent: &'static Agent) -> Option<InstalledAgent> {
        detect(agent, self.bridge.environment(), &self.versions)
    }

    /// The state of all connections and installed agents.
    pub fn list(&self, node: &str) -> Result<Vec<ExternalAgent>, BridgeError> {
        let mut agents = self.bridge.status(node, &self.installed_agents())?;
        let ledger = self.bridge.ledger()?;
        let prefix = format!("{node}:");
        agents.retain(|agent| {
            let key = agent.id.strip_prefix(&prefix).unwrap_or(&agent.id);
            ledger.connections.get(key).is_none_or(|connection| self.is_ours(connection))
        });
        Ok(agents)
    }

    /// Whether anything is connected here.
    pub fn is_idle(&self) -> Result<bool, BridgeError> {
        Ok(self.bridge.ledger()?.connections.is_empty())
    }

    /// Updates the instructions of one connection, or of all that are not paused and, unless `targets` is empty,
    /// among `targets`.
    pub fn sync(
        &self,
        content: &InstructionContent,
        targets: &[String],
        only: Option<&str>,
    ) -> Result<ExternalAgentSync, BridgeError> {
        let ledger = self.bridge.ledger()?;
        let mut result = ExternalAgentSync::default();
        for (key, connection) in &ledger.connections {
            let selected = match only {
                _ if !self.is_ours(connection) => false,
                Some(only) => only == key,
                None => !connection.paused && (targets.is_empty() || targets.contains(&connection.agent)),
            };
            if !selected {
                continue;
            }
            let synced = self.bridge.sync(content, Some(key))?;
            result.agents += synced.agents;
            result.written.extend(synced.written.iter().map(|path| path.display().to_string()));
            result.problems.extend(synced.problems.iter().map(|error| format!("{error}; {}", error.fix())));
        }
        Ok(result)
    }

    fn has(&self, key: &str) -> Result<bool, BridgeError> {
        Ok(self.bridge.ledger()?.connections.get(key).is_some_and(|connection| self.is_ours(connection)))
    }

    /// Pauses or resumes the instructions of a connection; false if it does not exist.
    pub fn pause(&self, key: &str, paused: bool) -> Result<bool, BridgeError> {
        Ok(self.has(key)? && self.bridge.update(key, |connection| connection.paused = paused)?)
    }

    /// Removes a connection from all its files; none if it does not exist.
    pub fn remove(
        &self,
        key: &str,
        policy: ConflictPolicy,
    ) -> Result<Option<RemovedConnection>, BridgeError> {
        if !self.has(key)? {
            return Ok(None);
        }
        let plan = self.bridge.plan_disconnect(key, policy)?;
        self.disconnect(key, plan).map(Some)
    }

    /// Like above, with a plan that the user has seen.
    pub fn disconnect(&self, key: &str, plan: Plan) -> Result<RemovedConnection, BridgeError> {
        let mut removed = RemovedConnection { problems: plan.problems, ..RemovedConnection::default() };
        for change in plan.changes {
            match self.bridge.apply(&change, None) {
                Ok(true) => removed.written.push(change.path),
                Ok(false) => {}
                Err(error) => removed.problems.push(error),
            }
        }
        let agent = self.bridge.ledger()?.connections.get(key).map(|connection| connection.agent.clone());
        removed.is_complete = self.bridge.forget(key)?;
        if let Some(agent) = agent {
            // Without an entry the agent cannot reach the hub, whatever else remains.
            let connections = self.bridge.ledger()?.connections;
            let is_entry = |record: &FileRecord| matches!(record.part, ManagedPart::Entry { .. });
            let mut others = connections.values().filter(|connection| connection.agent == agent);
            if !others.any(|connection| connection.files.iter().any(is_entry)) {
                removed.tokens = self.grants.remove(&agent)?.map(|grant| grant.tokens).unwrap_or_default();
            }
        }
        Ok(removed)
    }
}

impl From<&RemovedConnection> for RemovedExternalAgent {
    fn from(removed: &RemovedConnection) -> Self {
        Self {
            gone: removed.is_complete,
            written: removed.written.iter().map(|path| path.display().to_string()).collect(),
            problems: removed.problems.iter().map(|error| format!("{error}; {}", error.fix())).collect(),
        }
    }
}

impl From<&ExternalAgentInstructions> for InstructionContent {
    /// Instructions from a hub, within the limits for a hub.
    fn from(received: &ExternalAgentInstructions) -> Self {
        let files = received.files.iter().take(MAX_INSTRUCTION_FILES);
        let files = files.map(|file| (file.name.clone(), file.text.clone())).collect();
        let bundle = Bundle { folder: received.folder.clone().into(), files, omitted: Vec::new() };
        Self { bundle, max_bytes: received.max_bytes.min(MAX_INSTRUCTION_BYTES) }
    }
}

impl InstructionContent {
    /// Instructions to send to other machines.
    #[must_use]
    pub fn to_send(&self, agents: &[String], minutes: u64) -> ExternalAgentInstructions {
        let files = self.bundle.files.iter();
        ExternalAgentInstructions {
            folder: self.bundle.folder.display().to_string(),
            files: files
                .map(|(name, text)| InstructionFile { name: name.clone(), text: text.clone() })
                .collect(),
            max_bytes: self.max_bytes,
            agents: agents.to_vec(),
            minutes,
        }
    }
}
