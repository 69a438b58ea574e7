//! Plans the changes to the files of an agent, and reports the impossible ones, before any file is changed.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::change::Edit;
use super::{Bridge, Change, SERVER, not_allowed, scope_of};
use crate::agents::{AGENTS, Agent, InstructionFormat, Scope, choose};
use crate::block;
use crate::bundle::Bundle;
use crate::confined_path::ConfinedPath;
use crate::entry::{Policy, Wanted};
use crate::error::BridgeError;
use crate::ledger::{Ledger, Part};

/// How an agent starts the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    pub program: String,
    pub args: Vec<String>,
}

/// The agent's own servers.
#[derive(Default)]
pub struct Servers {
    pub path: PathBuf,
    pub entries: Vec<(String, Value)>,
}

/// Omits the entries, which may contain credentials.
impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The planned changes for an agent, and the problems.
#[derive(Debug, Default)]
pub struct Plan {
    pub changes: Vec<Change>,
    pub problems: Vec<BridgeError>,
}

/// The content of the instructions for agents.
#[derive(Debug, Clone, Default)]
pub struct Content {
    pub bundle: Bundle,
    /// The most bytes of it in one file.
    pub most: usize,
}

impl Content {
    /// The content of these files of a workspace.
    #[must_use]
    pub fn read(workspace: &Path, files: &[String], most: usize) -> Self {
        let mut bundle = Bundle::read(workspace, files);
        // Content beyond the largest limit is not sent. Slightly more than the limit is kept, so truncation is detected.
        for (_, text) in &mut bundle.files {
            let mut end = (most + 1).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.truncate(end);
        }
        Self { bundle, most }
    }
}

impl Bridge {
    /// Plans to connect an agent.
    pub fn plan_connect(
        &self,
        agent: &'static Agent,
        scope: &Scope,
        wiring: &Wiring,
        content: Option<&Content>,
        policy: Policy,
    ) -> Result<Plan, BridgeError> {
        let ledger = self.settled()?;
        let mut plan = Plan::default();
        let key = Self::key(agent, scope);
        if let Some(servers) = agent.servers(scope) {
            let keys = agent.keys.iter().chain(&[SERVER]).map(|key| (*key).to_owned()).collect();
            let value = agent.entry(&wiring.program, &wiring.args);
            let edit = Edit::Enter(Wanted { syntax: servers.syntax, keys, value, moved: Vec::new() });
            let environment = self.environment_of(ledger.connections.get(&key));
            let place = choose(servers.files, &environment, scope);
            let now = choose(servers.files, &self.environment, scope);
            if let (Ok(Some(place)), Ok(Some(now))) = (&place, &now)
                && place.path() != now.path()
            {
                let why =
                    format!("is where it is connected, but its settings are now in {}", now.path().display());
                plan.problems.push(BridgeError::conflict(&place.path(), why, "disconnect it first"));
                return Ok(plan);
            }
            self.add(&mut plan, &ledger, &key, place, edit, policy);
        }
        if let Some(content) = content.filter(|content| !content.bundle.is_empty()) {
            self.add_instructions(&mut plan, &ledger, agent, scope, content, policy, true);
        }
        Ok(plan)
    }

    /// The servers in an agent's file other than the hub's entry.
    pub fn servers(&self, agent: &'static Agent, scope: &Scope) -> Result<Servers, BridgeError> {
        let (key, mut servers) = (Self::key(agent, scope), Servers::default());
        let ledger = self.settled()?;
        let Some(known) = agent.servers(scope) else { return Ok(servers) };
        let environment = self.environment_of(ledger.connections.get(&key));
        let Some(place) = choose(known.files, &environment, scope)? else { return Ok(servers) };
        let Some(found) = place.read()? else { return Ok(servers) };
        servers.path = place.path();
        let entries = known.syntax.get(&found.text, agent.keys);
        if let Some(Value::Object(entries)) = entries.map_err(BridgeError::edit(&servers.path))? {
            servers.entries = entries.into_iter().filter(|(name, _)| name != SERVER).collect();
        }
        Ok(servers)
    }

    /// Plans to connect an agent and to remove these servers from the same file.
    pub fn moving(&self, change: &Change, names: &[String]) -> Result<Change, BridgeError> {
        let Edit::Enter(wanted) = &change.edit else { return Ok(change.clone()) };
        let edit = Edit::Enter(Wanted { moved: names.to_vec(), ..wanted.clone() });
        self.change(&self.settled()?, &change.key, change.place.clone(), edit, change.policy)
    }

    /// Plans to disconnect an agent.
    pub fn plan_disconnect(&self, key: &str, policy: Policy) -> Result<Plan, BridgeError> {
        let ledger = self.settled()?;
        let mut plan = Plan::default();
        let Some(connection) = ledger.connections.get(key) else { return Ok(plan) };
        for record in &connection.files {
            let place = self.place_of(connection, &record.path).map(Some);
            self.add(&mut plan, &ledger, key, place, Edit::Leave, policy);
        }
        Ok(plan)
    }

    /// Plans to update the instructions of a connection.
    pub(super) fn plan_sync(&self, ledger: &Ledger, key: &str, content: &Content) -> Plan {
        let mut plan = Plan::default();
        let Some(connection) = ledger.connections.get(key) else { return plan };
        let Some(agent) = Agent::named(&connection.agent) else { return plan };
        let scope = scope_of(connection);
        if !content.bundle.is_empty() {
            self.add_instructions(&mut plan, ledger, agent, &scope, content, Policy::Skip, false);
            return plan;
        }
        let texts = connection.files.iter().filter(|record| !matches!(record.part, Part::Entry { .. }));
        for record in texts {
            let place = self.place_of(connection, &record.path).map(Some);
            self.add(&mut plan, ledger, key, place, Edit::Leave, Policy::Skip);
        }
        plan
    }

    /// Plans to restore a backup.
    pub fn plan_restore(&self, id: &str) -> Result<Change, BridgeError> {
        let ledger = self.settled()?;
        let (backup, text) = ledger.backup(&self.folder, id)?;
        let connected =
            ledger.connections.iter().find(|(_, c)| c.files.iter().any(|file| file.path == backup.path));
        let (key, place) = match connected {
            Some((key, connection)) => (key.clone(), self.place_of(connection, &backup.path)?),
            None => (String::new(), self.place_of_known(&backup.path)?),
        };
        self.change(&ledger, &key, place, Edit::Put { text }, Policy::Replace)
    }

    #[allow(clippy::too_many_arguments)]
    fn add_instructions(
        &self,
        plan: &mut Plan,
        ledger: &Ledger,
        agent: &Agent,
        scope: &Scope,
        content: &Content,
        policy: Policy,
        asked: bool,
    ) {
        let Some(instructions) = agent.instructions(scope) else { return };
        let key = Self::key(agent, scope);
        // A file that we wrote stays in use, even if another candidate has appeared.
        let connection = ledger.connections.get(&key);
        let known = connection.and_then(|connection| {
            let text = connection.files.iter().find(|record| !matches!(record.part, Part::Entry { .. }))?;
            Some(self.place_of(connection, &text.path).map(Some))
        });
        let place =
            known.unwrap_or_else(|| choose(instructions.files, &self.environment_of(connection), scope));
        // The limit is the smallest one among the agents that read this file.
        let path = place.as_ref().ok().and_then(|place| place.as_ref()).map(ConfinedPath::path);
        let readers = ledger.connections.values().filter(|connection| {
            path.as_ref().is_some_and(|path| connection.files.iter().any(|file| file.path == *path))
        });
        let readers = readers.filter_map(|connection| {
            Agent::named(&connection.agent)?.instructions(&scope_of(connection))?.max_chars
        });
        let limit = readers.chain(instructions.max_chars).fold(content.most, usize::min);
        let text = |frame: usize| content.bundle.rendered(limit.saturating_sub(frame));
        let edit = match instructions.format {
            InstructionFormat::Block => Edit::Write { content: text(block::FRAME), asked },
            InstructionFormat::Own { front } => {
                Edit::Own { content: format!("{front}\n{}\n", text(front.len() + 2)), asked }
            }
        };
        self.add(plan, ledger, &key, place, edit, policy);
    }

    fn add(
        &self,
        plan: &mut Plan,
        ledger: &Ledger,
        key: &str,
        place: Result<Option<ConfinedPath>, BridgeError>,
        edit: Edit,
        policy: Policy,
    ) {
        let change = match place {
            Ok(Some(place)) => self.change(ledger, key, place, edit, policy),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match change {
            Ok(change) => plan.changes.push(change),
            Err(error) => plan.problems.push(error),
        }
    }

    pub(super) fn change(
        &self,
        ledger: &Ledger,
        key: &str,
        place: ConfinedPath,
        edit: Edit,
        policy: Policy,
    ) -> Result<Change, BridgeError> {
        let path = place.path();
        let found = place.read()?;
        let (after, _) = self.computed(ledger, key, &path, found.as_ref(), (&edit, policy))?;
        let known = || match ledger.record(&path).map(|record| &record.part) {
            Some(Part::Entry { moved, .. }) => moved.iter().map(|moved| moved.name.clone()).collect(),
            _ => Vec::new(),
        };
        let servers = match &edit {
            Edit::Enter(wanted) => wanted.moved.clone(),
            Edit::Leave | Edit::Put { .. } => known(),
            Edit::Write { .. } | Edit::Own { .. } => Vec::new(),
        };
        Ok(Change {
            servers,
            path,
            before: found.map(|found| found.text),
            after,
            key: key.to_owned(),
            place,
            edit,
            policy,
        })
    }

    /// The same for a file that no connection uses any more, which may belong to a project.
    fn place_of_known(&self, path: &Path) -> Result<ConfinedPath, BridgeError> {
        let projects = path.ancestors().skip(1).map(|folder| Scope::Project(folder.to_owned()));
        let mut scopes = std::iter::once(Scope::User).chain(projects);
        let of_agents = |scope: &Scope| {
            let places = AGENTS.iter().flat_map(|agent| agent.writable_paths(&self.environment, scope));
            places.into_iter().find(|place| place.path() == path)
        };
        scopes.find_map(|scope| of_agents(&scope)).ok_or_else(|| not_allowed(path))
    }
}
