//! Third-party agents connected to this hub, on its own machine and on its nodes.
//!
//! The agents' files and the records about them are on the agents' machines: the hub queries them and stores
//! nothing itself. The instructions are a folder of the hub; they are sent to all machines when the folder changes,
//! when a machine connects, and periodically.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http::StatusCode;
use plexus_bridge::{AgentManager, BridgeError, ConflictPolicy, InstructionContent};
use plexus_kit::config::SyncConfig;
use plexus_kit::{Clock, Config, Environment, LiveConfig};
use plexus_node::external_agents::NAME;
use plexus_proto::api::{
    ExternalAgent, ExternalAgentFile, ExternalAgentInstructions, ExternalAgentSync, ExternalAgents,
    ExternalAgentsUnanswered, RemovedExternalAgent,
};
use plexus_proto::node::{Call, Caller};
use plexus_proto::{CallId, ErrorCode, NodeId, SessionId, TokenId};
use plexus_tools::nodes::{LOCAL, NodeEntry, Nodes as _};
use plexus_tools::{CallError, ToolOutput, outcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::http::ApiError;
use crate::nodes::{Gateway, HUB, OutgoingCall};

/// Maximum delay until a change in the folder is noticed.
const POLL: Duration = Duration::from_secs(2);
/// How long a machine may take to answer; it may have to start programs to learn their versions.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Limits on a machine's answer: agents, files or lines of each, and characters of a text.
const MAX_ITEMS: usize = 200;
const MAX_TEXT: usize = 500;

#[derive(Debug)]
pub(crate) struct AgentConnections {
    keeper: Arc<AgentManager>,
    config: LiveConfig,
    gateway: Gateway,
}

/// The answer of a machine.
#[derive(serde::Deserialize)]
struct Answer<T> {
    answer: T,
    #[serde(default)]
    tokens: Vec<TokenId>,
}

impl AgentConnections {
    pub(crate) fn new(
        config: &Config,
        live: LiveConfig,
        environment: &Environment,
        clock: Clock,
        gateway: Gateway,
    ) -> Self {
        let folder = config.data_dir.join(plexus_bridge::FOLDER);
        let keeper = AgentManager::new(&folder, environment, clock).for_hub(None);
        Self { keeper: Arc::new(keeper), config: live, gateway }
    }

    fn settings(&self) -> SyncConfig {
        self.config.load().sync.clone()
    }

    /// The current instructions for agents.
    pub(crate) async fn instructions(&self) -> Result<ExternalAgentInstructions, ApiError> {
        let settings = self.settings();
        let (agents, minutes) = (settings.agents.clone(), settings.minutes);
        let content = blocking(move || Ok(read(&settings))).await?;
        Ok(content.to_send(&agents, minutes))
    }

    /// The agents on all machines that can be queried.
    pub(crate) async fn list(&self) -> Result<ExternalAgents, ApiError> {
        let keeper = self.keeper.clone();
        let own = blocking(move || keeper.list(LOCAL));
        let nodes = self.nodes();
        let answers = join_all(nodes.iter().map(|node| async move {
            (
                node.name.clone(),
                self.call_machine::<Vec<ExternalAgent>>(node, &json!({ "action": "list" })).await,
            )
        }));
        let (own, answers) = tokio::join!(own, answers);
        let mut list = ExternalAgents::default();
        match own {
            Ok(own) => list.items = own,
            Err(error) => {
                let node = LOCAL.to_owned();
                list.unanswered.push(ExternalAgentsUnanswered { node, why: error.message });
            }
        }
        for (node, answered) in answers {
            match answered {
                Ok(Answer { answer, .. }) => {
                    list.items
                        .extend(answer.into_iter().take(MAX_ITEMS).map(|agent| from_node(agent, &node)));
                }
                Err(error) => {
                    let why = sanitized(&error.message);
                    list.unanswered.push(ExternalAgentsUnanswered { node, why });
                }
            }
        }
        Ok(list)
    }

    /// Updates the instructions of one agent, or of all that are not paused.
    pub(crate) async fn sync(&self, id: Option<&str>) -> Result<ExternalAgentSync, ApiError> {
        let settings = self.settings();
        let (targets, minutes) = (settings.agents.clone(), settings.minutes);
        let content = blocking(move || Ok(read(&settings))).await?;
        let sent = content.to_send(&targets, minutes);
        let Some(id) = id else {
            let keeper = self.keeper.clone();
            let mut done =
                ExternalAgentSync { problems: content.bundle.omitted.clone(), ..Default::default() };
            if !done.problems.is_empty() {
                // Agents keep their instructions until all files can be read again.
                return Ok(done);
            }
            match blocking(move || keeper.sync(&content, &targets, None)).await {
                Ok(synced) => add(&mut done, synced),
                Err(error) => done.problems.push(error.message),
            }
            let nodes = self.nodes();
            for (node, result) in nodes.iter().zip(self.sync_nodes(&nodes, &sent).await) {
                match result {
                    Ok(synced) => add(&mut done, synced),
                    Err(error) => done.problems.push(format!("{}: {}", node.name, sanitized(&error.message))),
                }
            }
            return Ok(done);
        };
        let (node, key) = self.locate(id)?;
        let known = self.list_on(node.as_ref()).await?;
        if !known.iter().any(|agent| agent.id == id && agent.connected_at.is_some()) {
            return Err(unknown(id));
        }
        match node {
            None => {
                let (keeper, key) = (self.keeper.clone(), key.to_owned());
                blocking(move || keeper.sync(&content, &targets, Some(&key))).await
            }
            Some(node) => {
                let arguments = json!({ "action": "sync", "key": key, "instructions": sent });
                let synced = self.call_machine::<ExternalAgentSync>(&node, &arguments).await;
                synced.map(|synced| bounded(synced.answer)).map_err(from_machine)
            }
        }
    }

    /// Pauses or resumes the updates of one agent's instructions.
    pub(crate) async fn pause(&self, id: &str, paused: bool) -> Result<ExternalAgent, ApiError> {
        let (node, key) = self.locate(id)?;
        let is_connected = match &node {
            None => {
                let (keeper, key) = (self.keeper.clone(), key.to_owned());
                blocking(move || keeper.pause(&key, paused)).await?
            }
            Some(node) => {
                let action = if paused { "pause" } else { "resume" };
                let arguments = json!({ "action": action, "key": key });
                self.call_machine::<bool>(node, &arguments).await.map_err(from_machine)?.answer
            }
        };
        let agents = if is_connected { self.list_on(node.as_ref()).await? } else { Vec::new() };
        agents.into_iter().find(|agent| agent.id == id).ok_or_else(|| unknown(id))
    }

    /// Removes the Plexus entries from an agent's files. Also returns the tokens that are no longer needed.
    pub(crate) async fn remove(&self, id: &str) -> Result<(RemovedExternalAgent, Vec<TokenId>), ApiError> {
        let (node, key) = self.locate(id)?;
        let removed = match node {
            None => {
                let (keeper, key) = (self.keeper.clone(), key.to_owned());
                let removed = blocking(move || keeper.remove(&key, ConflictPolicy::Skip)).await?;
                removed.map(|removed| (RemovedExternalAgent::from(&removed), removed.tokens))
            }
            Some(node) => {
                let arguments = json!({ "action": "remove", "key": key });
                let answers = self.call_machine::<Option<RemovedExternalAgent>>(&node, &arguments).await;
                let Answer { answer, tokens } = answers.map_err(from_machine)?;
                let from_node = |removed: RemovedExternalAgent| RemovedExternalAgent {
                    gone: removed.gone,
                    written: lines(removed.written),
                    problems: lines(removed.problems),
                };
                answer.map(|removed| (from_node(removed), tokens))
            }
        };
        removed.ok_or_else(|| unknown(id))
    }

    /// The machine and the connection of an id; `None` stands for the hub's own machine.
    fn locate<'i>(&self, id: &'i str) -> Result<(Option<NodeEntry>, &'i str), ApiError> {
        let (node, key) = id.split_once(':').ok_or_else(|| unknown(id))?;
        if node == LOCAL {
            return Ok((None, key));
        }
        let all = self.gateway.all();
        let known = all.iter().find(|known| known.name == node).ok_or_else(|| unknown(id))?;
        Ok((Some(known.clone()), key))
    }

    async fn list_on(&self, node: Option<&NodeEntry>) -> Result<Vec<ExternalAgent>, ApiError> {
        let Some(node) = node else {
            let keeper = self.keeper.clone();
            return blocking(move || keeper.list(LOCAL)).await;
        };
        let answers = self.call_machine::<Vec<ExternalAgent>>(node, &json!({ "action": "list" })).await;
        let agents = answers.map_err(from_machine)?.answer.into_iter().take(MAX_ITEMS);
        Ok(agents.map(|agent| from_node(agent, &node.name)).collect())
    }

    /// Nodes that can be queried. The hub's own machine is handled directly.
    fn nodes(&self) -> Vec<NodeEntry> {
        let all = self.gateway.all();
        let can = |node: &&NodeEntry| node.online && node.name != LOCAL && node.tools.contains(NAME);
        all.iter().filter(can).cloned().collect()
    }

    async fn sync_nodes(
        &self,
        nodes: &[NodeEntry],
        instructions: &ExternalAgentInstructions,
    ) -> Vec<Result<ExternalAgentSync, CallError>> {
        let arguments = json!({ "action": "sync", "instructions": instructions });
        let requests = nodes.iter().map(|node| self.call_machine::<ExternalAgentSync>(node, &arguments));
        join_all(requests)
            .await
            .into_iter()
            .map(|result| result.map(|synced| bounded(synced.answer)))
            .collect()
    }

    /// Calls the agents tool on a machine as the hub itself; the hub's audit log records who requested it.
    async fn call_machine<T: DeserializeOwned>(
        &self,
        node: &NodeEntry,
        arguments: &Value,
    ) -> Result<Answer<T>, CallError> {
        let malformed = |error: serde_json::Error| {
            CallError::new(ErrorCode::ToolFailed, format!("its answer is malformed: {error}"))
        };
        let call = Call {
            call_id: CallId::new(),
            tool: NAME.to_owned(),
            arguments: serde_json::value::to_raw_value(arguments).map_err(malformed)?,
            session_id: SessionId::new(),
            caller: Caller { subject: HUB.to_owned(), profile: None },
            deadline_ms: u64::try_from(ANSWER_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            keep: false,
            idempotency_key: None,
            traceparent: None,
        };
        let call = OutgoingCall { call, queue: false, on_sent: None };
        let (nobody, never) = (Arc::new(|_| {}), CancellationToken::new());
        let ended = timeout(ANSWER_TIMEOUT, self.gateway.call(node.id, call, nobody, &never)).await;
        let timed_out = |_| CallError::new(ErrorCode::DeadlineExceeded, "it did not answer in time");
        let ended = ended.map_err(timed_out)?.map_err(|why| why.error(&node.name))?;
        match outcome::from_frame(ended)? {
            ToolOutput::Own { structured: Some(output), .. } => {
                serde_json::from_value(output).map_err(malformed)
            }
            _ => Err(CallError::new(ErrorCode::ToolFailed, "its answer is empty")),
        }
    }

    /// Keeps the instructions up to date for as long as the hub runs.
    pub(crate) async fn keep_current(&self) {
        let mut last_stamps: Option<Vec<FileStamp>> = None;
        let mut synced_nodes: BTreeSet<NodeId> = BTreeSet::new();
        let mut last: Option<Instant> = None;
        loop {
            let settings = self.settings();
            let every = Duration::from_secs(settings.minutes.saturating_mul(60));
            let looked = settings.clone();
            let Ok(stamps) = blocking(move || Ok(stamps(&looked))).await else { return };
            let nodes = self.nodes();
            let due = last.is_none_or(|last| last.elapsed() >= every);
            if due || last_stamps.as_ref() != Some(&stamps) {
                if let Err(error) = self.sync(None).await.map(|done| log(&done)) {
                    tracing::warn!(error = error.message, "cannot check the instructions of agents");
                }
                synced_nodes = nodes.iter().map(|node| node.id).collect();
                (last_stamps, last) = (Some(stamps), Some(Instant::now()));
            } else {
                let new: Vec<NodeEntry> =
                    nodes.iter().filter(|node| !synced_nodes.contains(&node.id)).cloned().collect();
                synced_nodes.retain(|id| nodes.iter().any(|node| node.id == *id));
                if !new.is_empty()
                    && let Ok(instructions) = self.instructions().await
                {
                    for (node, done) in new.iter().zip(self.sync_nodes(&new, &instructions).await) {
                        match done {
                            Ok(done) => log(&done),
                            // The node has reported the problem or is reconnecting; the next round covers all nodes.
                            Err(error) => {
                                tracing::warn!(
                                    node = node.name,
                                    why = sanitized(&error.message),
                                    "cannot check the agents of a node"
                                );
                            }
                        }
                        synced_nodes.insert(node.id);
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Detects changes of a file.
type FileStamp = Option<(u64, SystemTime)>;

fn stamps(settings: &SyncConfig) -> Vec<FileStamp> {
    let stamp = |file: &Path| {
        let metadata = fs_err::symlink_metadata(file).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    settings.files.iter().map(|name| stamp(&settings.workspace.join(name))).collect()
}

fn read(settings: &SyncConfig) -> InstructionContent {
    InstructionContent::read(&settings.workspace, &settings.files, settings.max_bytes)
}

fn log(done: &ExternalAgentSync) {
    for path in &done.written {
        tracing::info!(path, "wrote the instructions of an agent");
    }
    for problem in &done.problems {
        tracing::warn!("{problem}");
    }
}

fn add(done: &mut ExternalAgentSync, more: ExternalAgentSync) {
    done.agents += more.agents;
    done.written.extend(more.written);
    done.problems.extend(more.problems);
}

/// An agent as reported by a node; the hub itself fills in the node's name.
fn from_node(agent: ExternalAgent, node: &str) -> ExternalAgent {
    let key = sanitized(agent.id.trim_start_matches(':'));
    let files = agent.files.into_iter().take(MAX_ITEMS).map(|file| ExternalAgentFile {
        path: sanitized(&file.path),
        hash: file.hash.as_deref().map(sanitized),
        problem: file.problem.as_deref().map(sanitized),
        ..file
    });
    ExternalAgent {
        id: format!("{node}:{key}"),
        node: node.to_owned(),
        agent: sanitized(&agent.agent),
        name: sanitized(&agent.name),
        project: agent.project.as_deref().map(sanitized),
        version: agent.version.as_deref().map(sanitized),
        tested: agent.tested.as_deref().map(sanitized),
        files: files.collect(),
        ..agent
    }
}

/// A text reported by a machine, limited to one line and a maximum length.
fn sanitized(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT).collect()
}

fn lines(texts: Vec<String>) -> Vec<String> {
    texts.iter().take(MAX_ITEMS).map(|line| sanitized(line)).collect()
}

fn bounded(synced: ExternalAgentSync) -> ExternalAgentSync {
    ExternalAgentSync {
        agents: synced.agents,
        written: lines(synced.written),
        problems: lines(synced.problems),
    }
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no connected agent {id:?}"))
        .hint("`plexus sync list` shows the connected agents.")
}

fn from_machine(error: CallError) -> ApiError {
    let status = match error.code {
        ErrorCode::Unavailable | ErrorCode::DeadlineExceeded | ErrorCode::Overloaded => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::CONFLICT,
    };
    let api_error = ApiError::new(status, error.code, sanitized(&error.message));
    match error.hint {
        Some(hint) => api_error.hint(sanitized(&hint)),
        None => api_error,
    }
}

/// Runs file work on the blocking pool.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BridgeError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    let stopped = |error| ApiError::internal("accessing the files of agents", &error);
    done.map_err(stopped)?.map_err(|error| {
        let code = if error.is_retryable() { ErrorCode::Unavailable } else { ErrorCode::Conflict };
        let status =
            if error.is_retryable() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::CONFLICT };
        ApiError::new(status, code, error.to_string()).hint(error.fix())
    })
}
