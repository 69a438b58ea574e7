//! Finds and opens the outboxes on this machine: `proxy` in the data folder has one folder for each agent and hub.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use plexus_kit::config::nearest;
use plexus_kit::{Clock, config, env};
use plexus_store::outbox::{Limits, Outbox, Write};

use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// The outbox of one agent at one hub.
#[derive(Debug)]
pub(in crate::commands) struct AgentOutbox {
    /// Name of its folder, such as `codex-0011aabb`.
    pub(in crate::commands) name: String,
    pub(in crate::commands) outbox: Outbox,
}

/// The open outboxes.
#[derive(Debug)]
pub(in crate::commands) struct AgentOutboxes(Vec<AgentOutbox>);

impl AgentOutboxes {
    /// Opens all outboxes on this machine, or only those of one agent.
    pub(in crate::commands) async fn open(
        agent: Option<&str>,
        invocation: &Invocation<'_>,
    ) -> anyhow::Result<Self> {
        let folder = data_dir(invocation)?.join("proxy");
        let found = outbox_names(&folder)?;
        let selected: Vec<&String> =
            found.iter().filter(|name| agent.is_none_or(|agent| belongs_to(name, agent))).collect();
        if let Some(agent) = agent
            && selected.is_empty()
        {
            let message = format!("there is no outbox of {agent} in {}", folder.display());
            let failure = Failure::new(Exit::Failed, message);
            let agents = found.iter().map(|name| agent_of(name));
            return Err(match nearest(agent, agents.clone()) {
                Some(suggestion) => failure.hint(format!("did you mean --agent {suggestion}?")),
                None if found.is_empty() => {
                    failure.hint("the agent's proxy creates it: see `plexus mcp --help`")
                }
                None => {
                    failure.hint(format!("agents with an outbox: {}", agents.collect::<Vec<_>>().join(", ")))
                }
            }
            .into());
        }
        let mut outboxes = Vec::new();
        for name in selected {
            let path = folder.join(name).join("outbox.db");
            let (outbox, opened) =
                Outbox::open(&path, Clock::system(), Limits::default()).await.map_err(|error| {
                    Failure::new(Exit::Failed, error.to_string())
                        .hint("to skip this outbox, select another one with --agent; `plexus doctor` checks the disk")
                })?;
            if let Some(recovered) = opened.recovered {
                invocation.out.note(&format!(
                    "The outbox of {name} was damaged. Recovered {}; the damaged file is {}.",
                    recovered
                        .rows
                        .map_or_else(|| "its readable rows".to_owned(), |rows| format!("{rows} writes")),
                    recovered.moved_to.display()
                ));
            }
            outboxes.push(AgentOutbox { name: name.clone(), outbox });
        }
        Ok(Self(outboxes))
    }

    pub(in crate::commands) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::commands) fn iter(&self) -> impl Iterator<Item = &AgentOutbox> {
        self.0.iter()
    }

    pub(in crate::commands) async fn close(&self) {
        for agent in &self.0 {
            // All writes are on disk already; the next process that opens the file checkpoints a remaining WAL.
            let _ = agent.outbox.close().await;
        }
    }

    /// Finds the write with this id. Fails if several outboxes have one.
    pub(in crate::commands) async fn find(&self, id: i64) -> anyhow::Result<(&AgentOutbox, Write, String)> {
        let mut found = Vec::new();
        for agent in &self.0 {
            if let Some((write, params)) = agent.outbox.show(id).await? {
                found.push((agent, write, params));
            }
        }
        if let [_, _, ..] = found[..] {
            let names: Vec<&str> = found.iter().map(|(agent, ..)| agent.name.as_str()).collect();
            let message = format!("several outboxes have a write {id}: {}", names.join(", "));
            return Err(Failure::new(Exit::Usage, message).hint("select one with --agent").into());
        }
        found.pop().ok_or_else(|| {
            let message = format!("there is no write {id} in any outbox; it may have been delivered");
            Failure::new(Exit::Failed, message).hint("`plexus outbox list` shows the ids").into()
        })
    }

    /// Finds the outbox of each write.
    pub(in crate::commands) async fn find_all(
        &self,
        ids: &[i64],
    ) -> anyhow::Result<Vec<(&AgentOutbox, i64)>> {
        let mut found = Vec::new();
        for id in ids {
            found.push((self.find(*id).await?.0, *id));
        }
        Ok(found)
    }
}

/// The data folder: from the flag, the environment, or the default.
fn data_dir(invocation: &Invocation<'_>) -> anyhow::Result<PathBuf> {
    let environment = invocation.environment();
    let data_dir = invocation.data_dir().map(PathBuf::from);
    let data_dir = data_dir.or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from));
    data_dir.or_else(|| config::default_data_dir(environment)).ok_or_else(|| {
        let message = "no data folder is known: neither HOME nor XDG_DATA_HOME is set";
        Failure::new(Exit::Usage, message).hint("name a folder with --data-dir").into()
    })
}

/// Names of the folders that contain an outbox, sorted.
fn outbox_names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        if let Ok(name) = entry.file_name().into_string()
            && entry.path().join("outbox.db").is_file()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The agent in the name of a folder, which ends with a hash of the hub.
fn agent_of(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((agent, hash)) if hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => agent,
        _ => name,
    }
}

fn belongs_to(name: &str, agent: &str) -> bool {
    name == agent || agent_of(name) == agent
}
