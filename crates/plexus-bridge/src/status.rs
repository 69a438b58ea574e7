//! The state of connections: our content in each file, compared with our last write.

use plexus_proto::api::{
    ExternalAgent, ExternalAgentFile, ExternalAgentFileState, ExternalAgentPart, ExternalAgentState,
};

use crate::agents::{AGENTS, Agent, InstalledAgent};
use crate::bridge::Bridge;
use crate::error::BridgeError;
use crate::ledger::{Connection, FileRecord, ManagedPart};
use crate::{block, entry};

impl Bridge {
    /// The state of all connections and installed agents.
    pub fn status(
        &self,
        node: &str,
        found: &[(&'static Agent, InstalledAgent)],
    ) -> Result<Vec<ExternalAgent>, BridgeError> {
        // Reading takes no lock.
        let ledger = self.recovered_ledger().or_else(|_| self.ledger())?;
        let mut agents: Vec<ExternalAgent> = ledger
            .connections
            .iter()
            .map(|(key, connection)| self.connected(node, key, connection, found))
            .collect();
        for (agent, installed) in found {
            if ledger.connections.values().any(|connection| connection.agent == agent.id) {
                continue;
            }
            agents.push(ExternalAgent {
                id: format!("{node}:{}", agent.id),
                agent: agent.id.to_owned(),
                name: agent.name.to_owned(),
                node: node.to_owned(),
                project: None,
                state: ExternalAgentState::Found,
                version: installed.version.clone(),
                tested: agent.tested.map(str::to_owned),
                connected_at: None,
                last_sync_at: None,
                files: Vec::new(),
            });
        }
        let order = |agent: &ExternalAgent| AGENTS.iter().position(|known| known.id == agent.agent);
        agents.sort_by(|one, other| (order(one), &one.project).cmp(&(order(other), &other.project)));
        Ok(agents)
    }

    fn connected(
        &self,
        node: &str,
        key: &str,
        connection: &Connection,
        found: &[(&'static Agent, InstalledAgent)],
    ) -> ExternalAgent {
        let agent = Agent::by_name(&connection.agent);
        let installed =
            found.iter().find(|(agent, _)| agent.id == connection.agent).map(|(_, installed)| installed);
        let mut files: Vec<ExternalAgentFile> =
            connection.files.iter().map(|record| self.file(connection, record)).collect();
        for trouble in &connection.troubles {
            let problem = format!("{}; {}", trouble.why, trouble.fix);
            let path = trouble.path.display().to_string();
            match files.iter_mut().find(|file| file.path == path) {
                Some(file) if file.problem.is_none() && !trouble.conflict => {
                    (file.state, file.problem) = (ExternalAgentFileState::Blocked, Some(problem));
                }
                Some(_) => {}
                None => files.push(ExternalAgentFile {
                    path,
                    part: ExternalAgentPart::Instructions,
                    state: if trouble.conflict {
                        ExternalAgentFileState::Changed
                    } else {
                        ExternalAgentFileState::Blocked
                    },
                    hash: None,
                    written_at: None,
                    problem: Some(problem),
                }),
            }
        }
        // A connection without any file is not connected, such as after an old backup was restored.
        let is_current =
            !files.is_empty() && files.iter().all(|file| file.state == ExternalAgentFileState::Current);
        let state = match (is_current, connection.paused) {
            (_, true) => ExternalAgentState::Paused,
            (true, false) => ExternalAgentState::Connected,
            (false, false) => ExternalAgentState::Attention,
        };
        ExternalAgent {
            id: format!("{node}:{key}"),
            agent: connection.agent.clone(),
            name: agent.map_or(connection.agent.as_str(), |agent| agent.name).to_owned(),
            node: node.to_owned(),
            project: connection.project.as_ref().map(|project| project.display().to_string()),
            state,
            version: installed
                .and_then(|installed| installed.version.clone())
                .or_else(|| connection.version.clone()),
            tested: agent.and_then(|agent| agent.tested).map(str::to_owned),
            connected_at: Some(connection.connected_at),
            last_sync_at: connection.last_sync_at,
            files,
        }
    }

    fn file(&self, connection: &Connection, record: &FileRecord) -> ExternalAgentFile {
        let (state, problem) = self.file_state(connection, record);
        ExternalAgentFile {
            path: record.path.display().to_string(),
            part: match record.part {
                ManagedPart::Entry { .. } => ExternalAgentPart::Server,
                ManagedPart::Block { .. } | ManagedPart::Own => ExternalAgentPart::Instructions,
            },
            state,
            hash: Some(record.hash.clone()),
            written_at: Some(record.written_at),
            problem,
        }
    }

    fn file_state(
        &self,
        connection: &Connection,
        record: &FileRecord,
    ) -> (ExternalAgentFileState, Option<String>) {
        let found = match self.file_location(connection, &record.path).and_then(|location| location.read()) {
            Ok(found) => found,
            Err(error) => {
                return (ExternalAgentFileState::Blocked, Some(format!("{error}; {}", error.fix())));
            }
        };
        let Some(found) = found else {
            return (
                ExternalAgentFileState::Removed,
                Some("the file was removed by another program".to_owned()),
            );
        };
        if let ManagedPart::Entry { syntax, .. } = &record.part
            && let Err(error) = syntax.value(&found.text)
        {
            let problem = format!("it cannot be read: it {error}; its agent cannot read it either");
            return (ExternalAgentFileState::Blocked, Some(problem));
        }
        let is_unchanged = match &record.part {
            part @ ManagedPart::Entry { .. } => entry::is_current(&found.text, part),
            part @ ManagedPart::Block { .. } => block::is_current(&record.path, &found.text, part),
            ManagedPart::Own => Some(found.hash == record.hash),
        };
        match is_unchanged {
            Some(true) => (ExternalAgentFileState::Current, None),
            Some(false) => {
                let problem = "the content that Plexus wrote was changed and is not overwritten; `plexus connect --policy replace` overwrites it";
                (ExternalAgentFileState::Changed, Some(problem.to_owned()))
            }
            None => (
                ExternalAgentFileState::Removed,
                Some("the content that Plexus wrote is gone; `plexus connect` writes it again".to_owned()),
            ),
        }
    }
}
