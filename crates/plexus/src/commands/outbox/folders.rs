//! Which outboxes there are: one folder below `proxy` in the data folder for each agent and hub.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use plexus_kit::config::nearest;
use plexus_kit::{Clock, config, env};
use plexus_store::outbox::{Limits, Outbox, Write};

use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// The outbox of one agent at one hub.
#[derive(Debug)]
pub(in crate::commands) struct AgentBox {
    /// Of its folder: `codex-0011aabb`.
    pub(in crate::commands) name: String,
    pub(in crate::commands) outbox: Outbox,
}

#[derive(Debug)]
pub(in crate::commands) struct Boxes(Vec<AgentBox>);

impl Boxes {
    /// Those of this machine, or of one agent.
    pub(in crate::commands) async fn open(
        agent: Option<&str>,
        invocation: &Invocation<'_>,
    ) -> anyhow::Result<Self> {
        let folder = data_dir(invocation)?.join("proxy");
        let found = names(&folder)?;
        let wanted: Vec<&String> =
            found.iter().filter(|name| agent.is_none_or(|agent| is_of(name, agent))).collect();
        if let Some(agent) = agent
            && wanted.is_empty()
        {
            let message = format!("there is no outbox of {agent} in {}", folder.display());
            let failure = Failure::new(Exit::Failed, message);
            let agents = found.iter().map(|name| agent_of(name));
            return Err(match nearest(agent, agents.clone()) {
                Some(meant) => failure.hint(format!("did you mean --agent {meant}?")),
                None if found.is_empty() => failure.hint("the proxy of an agent makes one: `plexus mcp`"),
                None => failure.hint(format!("there are those of {}", agents.collect::<Vec<_>>().join(", "))),
            }
            .into());
        }
        let mut boxes = Vec::new();
        for name in wanted {
            let path = folder.join(name).join("outbox.db");
            let (outbox, opened) =
                Outbox::open(&path, Clock::system(), Limits::default()).await.map_err(|error| {
                    Failure::new(Exit::Failed, error.to_string())
                        .hint("--agent names another one; `plexus doctor` looks at the disk")
                })?;
            if let Some(recovered) = opened.recovered {
                invocation.out.note(&format!(
                    "The outbox of {name} was damaged. {} could be read and go on; the damaged file is {}.",
                    recovered.rows.map_or_else(|| "Its rows".to_owned(), |rows| format!("{rows} writes")),
                    recovered.moved_to.display()
                ));
            }
            boxes.push(AgentBox { name: name.clone(), outbox });
        }
        Ok(Self(boxes))
    }

    pub(in crate::commands) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::commands) fn iter(&self) -> impl Iterator<Item = &AgentBox> {
        self.0.iter()
    }

    pub(in crate::commands) async fn close(&self) {
        for one in &self.0 {
            // Everything is on the disk; a log that is left is folded in by the next.
            let _ = one.outbox.close().await;
        }
    }

    /// The one write of this id.
    pub(in crate::commands) async fn find(&self, id: i64) -> anyhow::Result<(&AgentBox, Write, String)> {
        let mut found = Vec::new();
        for one in &self.0 {
            if let Some((write, params)) = one.outbox.show(id).await? {
                found.push((one, write, params));
            }
        }
        if let [_, _, ..] = found[..] {
            let names: Vec<&str> = found.iter().map(|(one, ..)| one.name.as_str()).collect();
            let message = format!("there is a write {id} in several outboxes: {}", names.join(", "));
            return Err(Failure::new(Exit::Usage, message).hint("say which one with --agent").into());
        }
        found.pop().ok_or_else(|| {
            let message =
                format!("there is no write {id} in an outbox; it may have been delivered meanwhile");
            Failure::new(Exit::Failed, message).hint("`plexus outbox list` shows those that there are").into()
        })
    }

    /// Where each of the writes is.
    pub(in crate::commands) async fn find_all(&self, ids: &[i64]) -> anyhow::Result<Vec<(&AgentBox, i64)>> {
        let mut found = Vec::new();
        for id in ids {
            found.push((self.find(*id).await?.0, *id));
        }
        Ok(found)
    }
}

/// The data folder: of the flag, of the environment, or the default.
fn data_dir(invocation: &Invocation<'_>) -> anyhow::Result<PathBuf> {
    let environment = invocation.environment();
    let named = invocation.data_dir().map(PathBuf::from);
    let named = named.or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from));
    named.or_else(|| config::default_data_dir(environment)).ok_or_else(|| {
        let message = "neither HOME nor XDG_DATA_HOME says where the data folder is";
        Failure::new(Exit::Usage, message).hint("name it with --data-dir").into()
    })
}

/// Folders that have an outbox in them, in order.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
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

/// The agent of a folder, whose name goes on with the hash of the hub.
fn agent_of(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((agent, hash)) if hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => agent,
        _ => name,
    }
}

fn is_of(name: &str, agent: &str) -> bool {
    name == agent || agent_of(name) == agent
}
