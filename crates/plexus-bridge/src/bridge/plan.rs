//! Plans the changes to the files of an agent, and reports the impossible ones, before any file is changed.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::change::Edit;
use super::{Bridge, Change, SERVER, not_allowed, scope_of};
use crate::agents::{AGENTS, Agent, InstructionFormat, Scope, choose_file};
use crate::block;
use crate::bundle::Bundle;
use crate::confined_path::ConfinedPath;
use crate::entry::{ConflictPolicy, DesiredEntry};
use crate::error::BridgeError;
use crate::ledger::{Ledger, ManagedPart};

/// How an agent starts the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyCommand {
    pub program: String,
    pub args: Vec<String>,
}

/// The agent's own servers.
#[derive(Default)]
pub struct AgentServers {
    pub path: PathBuf,
    pub entries: Vec<(String, Value)>,
}

/// Omits the entries, which may contain credentials.
impl std::fmt::Debug for AgentServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentServers").field("path", &self.path).finish_non_exhaustive()
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
pub struct InstructionContent {
    pub bundle: Bundle,
    /// The most bytes of it in one file.
    pub max_bytes: usize,
}

impl InstructionContent {
    /// The content of these files of a workspace.
    #[must_use]
    pub fn read(workspace: &Path, files: &[String], max_bytes: usize) -> Self {
        let mut bundle = Bundle::read(workspace, files);
        // Content beyond the largest limit is not sent. Slightly more than the limit is kept, so truncation is
        // detected.
        for (_, text) in &mut bundle.files {
            let mut end = (max_bytes + 1).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.truncate(end);
        }
        Self { bundle, max_bytes }
    }
}

impl Bridge {
    /// Plans to connect an agent.
    pub fn plan_connect(
        &self,
        agent: &'static Agent,
        scope: &Scope,
        proxy_command: &ProxyCommand,
        content: Option<&InstructionContent>,
        policy: ConflictPolicy,
    ) -> Result<Plan, BridgeError> {
        let ledger = self.recovered_ledger()?;
        let mut plan = Plan::default();
        let key = Self::key(agent, scope);
        if let Some(servers) = agent.servers(scope) {
            let keys = agent.keys.iter().chain(&[SERVER]).map(|key| (*key).to_owned()).collect();
            let value = agent.entry(&proxy_command.program, &proxy_command.args);
            let edit =
                Edit::InsertEntry(DesiredEntry { syntax: servers.syntax, keys, value, moved: Vec::new() });
            let environment = self.environment_of(ledger.connections.get(&key));
            let location = choose_file(servers.files, &environment, scope);
            let now = choose_file(servers.files, &self.environment, scope);
            if let (Ok(Some(location)), Ok(Some(now))) = (&location, &now)
                && location.path() != now.path()
            {
                let why =
                    format!("is where it is connected, but its settings are now in {}", now.path().display());
                plan.problems.push(BridgeError::conflict(&location.path(), why, "disconnect it first"));
                return Ok(plan);
            }
            self.add(&mut plan, &ledger, &key, location, edit, policy);
        }
        if let Some(content) = content.filter(|content| !content.bundle.is_empty()) {
            self.add_instructions(&mut plan, &ledger, agent, scope, content, policy, true);
        }
        Ok(plan)
    }

    /// The servers in an agent's file other than the hub's entry.
    pub fn servers(&self, agent: &'static Agent, scope: &Scope) -> Result<AgentServers, BridgeError> {
        let (key, mut servers) = (Self::key(agent, scope), AgentServers::default());
        let ledger = self.recovered_ledger()?;
        let Some(known) = agent.servers(scope) else { return Ok(servers) };
        let environment = self.environment_of(ledger.connections.get(&key));
        let Some(location) = choose_file(known.files, &environment, scope)? else { return Ok(servers) };
        let Some(current) = location.read()? else { return Ok(servers) };
        servers.path = location.path();
        let entries = known.syntax.get(&current.text, agent.keys);
        if let Some(Value::Object(entries)) = entries.map_err(BridgeError::edit(&servers.path))? {
            servers.entries = entries.into_iter().filter(|(name, _)| name != SERVER).collect();
        }
        Ok(servers)
    }

    /// Plans to connect an agent and to remove these servers from the same file.
    pub fn plan_moving(&self, change: &Change, names: &[String]) -> Result<Change, BridgeError> {
        let Edit::InsertEntry(desired) = &change.edit else { return Ok(change.clone()) };
        let edit = Edit::InsertEntry(DesiredEntry { moved: names.to_vec(), ..desired.clone() });
        self.change(&self.recovered_ledger()?, &change.key, change.location.clone(), edit, change.policy)
    }

    /// Plans to disconnect an agent.
    pub fn plan_disconnect(&self, key: &str, policy: ConflictPolicy) -> Result<Plan, BridgeError> {
        let ledger = self.recovered_ledger()?;
        let mut plan = Plan::default();
        let Some(connection) = ledger.connections.get(key) else { return Ok(plan) };
        for record in &connection.files {
            let location = self.file_location(connection, &record.path).map(Some);
            self.add(&mut plan, &ledger, key, location, Edit::Remove, policy);
        }
        Ok(plan)
    }

    /// Plans to update the instructions of a connection.
    pub(super) fn plan_sync(&self, ledger: &Ledger, key: &str, content: &InstructionContent) -> Plan {
        let mut plan = Plan::default();
        let Some(connection) = ledger.connections.get(key) else { return plan };
        let Some(agent) = Agent::by_name(&connection.agent) else { return plan };
        let scope = scope_of(connection);
        if !content.bundle.is_empty() {
            self.add_instructions(&mut plan, ledger, agent, &scope, content, ConflictPolicy::Skip, false);
            return plan;
        }
        let texts =
            connection.files.iter().filter(|record| !matches!(record.part, ManagedPart::Entry { .. }));
        for record in texts {
            let location = self.file_location(connection, &record.path).map(Some);
            self.add(&mut plan, ledger, key, location, Edit::Remove, ConflictPolicy::Skip);
        }
        plan
    }

    /// Plans to restore a backup.
    pub fn plan_restore(&self, id: &str) -> Result<Change, BridgeError> {
        let ledger = self.recovered_ledger()?;
        let (backup, text) = ledger.backup(&self.folder, id)?;
        let connected =
            ledger.connections.iter().find(|(_, c)| c.files.iter().any(|file| file.path == backup.path));
        let (key, location) = match connected {
            Some((key, connection)) => (key.clone(), self.file_location(connection, &backup.path)?),
            None => (String::new(), self.known_file_location(&backup.path)?),
        };
        self.change(&ledger, &key, location, Edit::Restore { text }, ConflictPolicy::Replace)
    }

    #[allow(clippy::too_many_arguments)]
    fn add_instructions(
        &self,
        plan: &mut Plan,
        ledger: &Ledger,
        agent: &Agent,
        scope: &Scope,
        content: &InstructionContent,
        policy: ConflictPolicy,
        explicit: bool,
    ) {
        let Some(instructions) = agent.instructions(scope) else { return };
        let key = Self::key(agent, scope);
        // A file that we wrote stays in use, even if another candidate has appeared.
        let connection = ledger.connections.get(&key);
        let known = connection.and_then(|connection| {
            let text =
                connection.files.iter().find(|record| !matches!(record.part, ManagedPart::Entry { .. }))?;
            Some(self.file_location(connection, &text.path).map(Some))
        });
        let location =
            known.unwrap_or_else(|| choose_file(instructions.files, &self.environment_of(connection), scope));
        // The limit is the smallest one among the agents that read this file.
        let path = location.as_ref().ok().and_then(|location| location.as_ref()).map(ConfinedPath::path);
        let readers = ledger.connections.values().filter(|connection| {
            path.as_ref().is_some_and(|path| connection.files.iter().any(|file| file.path == *path))
        });
        let readers = readers.filter_map(|connection| {
            Agent::by_name(&connection.agent)?.instructions(&scope_of(connection))?.max_chars
        });
        let limit = readers.chain(instructions.max_chars).fold(content.max_bytes, usize::min);
        let text = |frame: usize| content.bundle.render(limit.saturating_sub(frame));
        let edit = match instructions.format {
            InstructionFormat::Block => Edit::WriteBlock { content: text(block::MARKER_BYTES), explicit },
            InstructionFormat::OwnFile { front_matter: front } => {
                Edit::WriteFile { content: format!("{front}\n{}\n", text(front.len() + 2)), explicit }
            }
        };
        self.add(plan, ledger, &key, location, edit, policy);
    }

    fn add(
        &self,
        plan: &mut Plan,
        ledger: &Ledger,
        key: &str,
        location: Result<Option<ConfinedPath>, BridgeError>,
        edit: Edit,
        policy: ConflictPolicy,
    ) {
        let change = match location {
            Ok(Some(location)) => self.change(ledger, key, location, edit, policy),
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
        location: ConfinedPath,
        edit: Edit,
        policy: ConflictPolicy,
    ) -> Result<Change, BridgeError> {
        let path = location.path();
        let current = location.read()?;
        let (after, _) = self.compute(ledger, key, &path, current.as_ref(), (&edit, policy))?;
        let known = || match ledger.record(&path).map(|record| &record.part) {
            Some(ManagedPart::Entry { moved, .. }) => moved.iter().map(|moved| moved.name.clone()).collect(),
            _ => Vec::new(),
        };
        let servers = match &edit {
            Edit::InsertEntry(desired) => desired.moved.clone(),
            Edit::Remove | Edit::Restore { .. } => known(),
            Edit::WriteBlock { .. } | Edit::WriteFile { .. } => Vec::new(),
        };
        Ok(Change {
            servers,
            path,
            before: current.map(|current| current.text),
            after,
            key: key.to_owned(),
            location,
            edit,
            policy,
        })
    }

    /// The same for a file that no connection uses any more, which may belong to a project.
    fn known_file_location(&self, path: &Path) -> Result<ConfinedPath, BridgeError> {
        let projects = path.ancestors().skip(1).map(|folder| Scope::Project(folder.to_owned()));
        let mut scopes = std::iter::once(Scope::User).chain(projects);
        let agent_file = |scope: &Scope| {
            let locations = AGENTS.iter().flat_map(|agent| agent.writable_paths(&self.environment, scope));
            locations.into_iter().find(|location| location.path() == path)
        };
        scopes.find_map(|scope| agent_file(&scope)).ok_or_else(|| not_allowed(path))
    }
}
