//! The agents of one machine, for who looks after them there: the hub on its own, a node on another, a person by a command.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plexus_kit::{Clock, Environment};
use plexus_proto::TokenId;
use plexus_proto::api::{
    ExternalAgent, ExternalAgentInstructions, ExternalAgentSync, InstructionFile, RemovedExternalAgent,
};

use url::Url;

use crate::agents::{Agent, Installed, Versions, detect, detect_all};
use crate::bridge::{Bridge, Content, Plan};
use crate::bundle::Bundle;
use crate::entry::Policy;
use crate::error::BridgeError;
use crate::grant::Grants;
use crate::ledger::{Connection, Part, Record};

/// For so long what was found is not looked for again: programs are started to know their versions.
const FRESH: Duration = Duration::from_secs(60);

/// Files that instructions are made of, and bytes of what is made of them, whoever says what they are.
pub const MOST_FILES: usize = 16;
pub const MOST_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct Keeper {
    bridge: Bridge,
    grants: Grants,
    /// Whose connections are looked after; none: everybody's, by the person whose they are.
    hub: Option<Option<Url>>,
    found: Mutex<Option<Look>>,
    versions: Versions,
}

/// What was found, and when.
#[derive(Debug)]
struct Look {
    at: Instant,
    found: Vec<(&'static Agent, Installed)>,
}

/// What became of a connection that was to be taken out.
#[derive(Debug, Default)]
pub struct Removed {
    /// Files that were changed or removed.
    pub written: Vec<std::path::PathBuf>,
    pub problems: Vec<BridgeError>,
    /// Nothing of it is left.
    pub gone: bool,
    /// Tokens of an agent that is connected nowhere any more.
    pub tokens: Vec<TokenId>,
}

impl Keeper {
    /// `folder` is where the ledger is.
    #[must_use]
    pub fn new(folder: &Path, environment: &Environment, clock: Clock) -> Self {
        Self {
            versions: Versions::in_folder(folder, clock.clone()),
            bridge: Bridge::new(folder, environment, clock),
            grants: Grants::new(folder),
            found: Mutex::default(),
            hub: None,
        }
    }

    /// The same for a hub: what is connected to another one is none of its business. Without a URL it is the one of this machine.
    #[must_use]
    pub fn for_hub(self, url: Option<&str>) -> Self {
        // One that is no URL has no connections.
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

    /// The agents that are here, as they were a moment ago.
    #[must_use]
    pub fn found(&self) -> Vec<(&'static Agent, Installed)> {
        let mut known = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_ref().filter(|look| look.at.elapsed() < FRESH) {
            Some(look) => look.found.clone(),
            None => {
                let found = detect_all(self.bridge.environment(), &self.versions);
                *known = Some(Look { at: Instant::now(), found: found.clone() });
                found
            }
        }
    }

    /// One of them, where the others need not be asked.
    #[must_use]
    pub fn found_of(&self, agent: &'static Agent) -> Option<Installed> {
        detect(agent, self.bridge.environment(), &self.versions)
    }

    /// All that are connected, and what else was found.
    pub fn list(&self, node: &str) -> Result<Vec<ExternalAgent>, BridgeError> {
        let mut agents = self.bridge.status(node, &self.found())?;
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

    /// Brings the instructions to what they should be: of one connection, or of all that are not paused and among `targets`,
    /// where that is not empty.
    pub fn sync(
        &self,
        content: &Content,
        targets: &[String],
        only: Option<&str>,
    ) -> Result<ExternalAgentSync, BridgeError> {
        let ledger = self.bridge.ledger()?;
        let mut done = ExternalAgentSync::default();
        for (key, connection) in &ledger.connections {
            let meant = match only {
                _ if !self.is_ours(connection) => false,
                Some(only) => only == key,
                None => !connection.paused && (targets.is_empty() || targets.contains(&connection.agent)),
            };
            if !meant {
                continue;
            }
            let synced = self.bridge.sync(content, Some(key))?;
            done.agents += synced.agents;
            done.written.extend(synced.written.iter().map(|path| path.display().to_string()));
            done.problems.extend(synced.problems.iter().map(|error| format!("{error}; {}", error.fix())));
        }
        Ok(done)
    }

    fn has(&self, key: &str) -> Result<bool, BridgeError> {
        Ok(self.bridge.ledger()?.connections.get(key).is_some_and(|connection| self.is_ours(connection)))
    }

    /// Leaves the instructions of a connection alone, or takes them up again; whether there is such a connection.
    pub fn pause(&self, key: &str, paused: bool) -> Result<bool, BridgeError> {
        Ok(self.has(key)? && self.bridge.update(key, |connection| connection.paused = paused)?)
    }

    /// Takes a connection out of all its files; none where there is none.
    pub fn remove(&self, key: &str, policy: Policy) -> Result<Option<Removed>, BridgeError> {
        if !self.has(key)? {
            return Ok(None);
        }
        let plan = self.bridge.plan_disconnect(key, policy)?;
        self.carry_out(key, plan).map(Some)
    }

    /// The same by a plan that somebody has seen.
    pub fn carry_out(&self, key: &str, plan: Plan) -> Result<Removed, BridgeError> {
        let mut removed = Removed { problems: plan.problems, ..Removed::default() };
        for change in plan.changes {
            match self.bridge.apply(&change, None) {
                Ok(true) => removed.written.push(change.path),
                Ok(false) => {}
                Err(error) => removed.problems.push(error),
            }
        }
        let agent = self.bridge.ledger()?.connections.get(key).map(|connection| connection.agent.clone());
        removed.gone = self.bridge.forget(key)?;
        if let Some(agent) = agent {
            // Without an entry it has no way to the hub, whatever is left of it.
            let connections = self.bridge.ledger()?.connections;
            let is_entry = |record: &Record| matches!(record.part, Part::Entry { .. });
            let mut others = connections.values().filter(|connection| connection.agent == agent);
            if !others.any(|connection| connection.files.iter().any(is_entry)) {
                removed.tokens = self.grants.take(&agent)?.map(|grant| grant.tokens).unwrap_or_default();
            }
        }
        Ok(removed)
    }
}

impl From<&Removed> for RemovedExternalAgent {
    fn from(removed: &Removed) -> Self {
        Self {
            gone: removed.gone,
            written: removed.written.iter().map(|path| path.display().to_string()).collect(),
            problems: removed.problems.iter().map(|error| format!("{error}; {}", error.fix())).collect(),
        }
    }
}

impl From<&ExternalAgentInstructions> for Content {
    /// What a hub has sent, within what a hub may say.
    fn from(sent: &ExternalAgentInstructions) -> Self {
        let files = sent.files.iter().take(MOST_FILES);
        let files = files.map(|file| (file.name.clone(), file.text.clone())).collect();
        let bundle = Bundle { folder: sent.folder.clone().into(), files, left_out: Vec::new() };
        Self { bundle, most: sent.max_bytes.min(MOST_BYTES) }
    }
}

impl Content {
    /// The same to be sent to other machines.
    #[must_use]
    pub fn to_send(&self, agents: &[String], minutes: u64) -> ExternalAgentInstructions {
        let files = self.bundle.files.iter();
        ExternalAgentInstructions {
            folder: self.bundle.folder.display().to_string(),
            files: files
                .map(|(name, text)| InstructionFile { name: name.clone(), text: text.clone() })
                .collect(),
            max_bytes: self.most,
            agents: agents.to_vec(),
            minutes,
        }
    }
}
