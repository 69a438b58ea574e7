//! What an agent is given beside what it has: one file for each agent.
//!
//! Everything is added. Arguments go before those of the user, who thereby has the last word; variables and files are the
//! run's own. A secret is in one variable and nowhere else. What a profile asks for and an agent has no way to take is a note.

mod claude;
mod codex;
mod gemini;
mod generic;
mod opencode;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;

use plexus_kit::Environment;
use plexus_proto::api::ProfileRun;
use serde_json::{Map, Value, json};

use super::{AgentKind, Scratch};

/// The name of the hub among an agent's MCP servers.
pub(crate) const SERVER: &str = "plexus";
/// What the hub calls the header that names a conversation.
const SESSION_HEADER: &str = "Plexus-Session";

/// Which conversation the calls of an agent will belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversation {
    /// This one, by the id that the agent's own transcript has.
    Known(String),
    /// Told to the hub by us, under a name of the agent's that is not known yet.
    Named(String),
    /// The agent makes it up and tells the hub.
    Told,
}

impl Conversation {
    /// What is known of it now.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Known(id) | Self::Named(id) => Some(id),
            Self::Told => None,
        }
    }
}

/// Where the agent finds the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wires {
    pub url: String,
    /// The variable that has the credential.
    pub key_variable: String,
}

/// What is known when an agent is wired up.
#[derive(Debug)]
pub struct Wiring<'a> {
    pub run: &'a str,
    pub program: &'a std::path::Path,
    pub scratch: &'a Scratch,
    /// None: it is not connected to a hub.
    pub wires: Option<&'a Wires>,
    pub conversation: &'a Conversation,
    pub settings: &'a ProfileRun,
    /// The text to add to the agent's own, where the settings say so.
    pub system_prompt: Option<&'a str>,
    /// Those of the user.
    pub args: &'a [OsString],
    pub environment: &'a Environment,
    /// The agent is started again in the same run, and has begun its conversation already.
    pub again: bool,
}

/// What an agent is started with beside its own arguments and variables.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Injected {
    pub args: Vec<OsString>,
    pub env: Vec<(String, String)>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Injected {
    fn arg(&mut self, arg: impl Into<OsString>) {
        self.args.push(arg.into());
    }

    fn env(&mut self, name: &str, value: impl Into<String>) {
        self.env.push((name.to_owned(), value.into()));
    }

    fn cannot(&mut self, agent: AgentKind, what: &str) {
        self.notes.push(format!("the profile sets {what}, which {} has no way to be given", agent.as_str()));
    }
}

/// Which conversation this will be, and what a person should know of that.
pub fn choose(
    agent: AgentKind,
    args: &[OsString],
    name: Option<&str>,
    run: &str,
) -> Result<(Conversation, Option<String>), String> {
    match agent {
        AgentKind::Claude => claude::conversation(args, name, run),
        AgentKind::Codex => codex::conversation(args, name),
        AgentKind::Gemini => gemini::conversation(args, name, run),
        AgentKind::Opencode | AgentKind::Generic => {
            Ok((Conversation::Named(name.map_or_else(|| format!("run-{run}"), str::to_owned)), None))
        }
    }
}

/// Everything that the agent is given.
pub fn inject(agent: AgentKind, wiring: &Wiring<'_>) -> io::Result<Injected> {
    let mut injected = match agent {
        AgentKind::Claude => claude::inject(wiring)?,
        AgentKind::Codex => codex::inject(wiring),
        AgentKind::Gemini => gemini::inject(wiring)?,
        AgentKind::Opencode => opencode::inject(wiring)?,
        AgentKind::Generic => generic::inject(wiring)?,
    };
    injected.env("PLEXUS_RUN_ID", wiring.run);
    let asks = matches!(agent, AgentKind::Claude | AgentKind::Codex | AgentKind::Gemini);
    if let Some(mode) = wiring.settings.approval_mode.as_ref().filter(|_| asks) {
        injected.notes.push(format!("the profile sets the approval mode {mode:?}"));
    }
    if asks && wiring.wires.is_some() && wiring.settings.allow_tools == Some(true) {
        injected.notes.push("the profile lets it call the hub's tools without asking".to_owned());
    }
    Ok(injected)
}

/// Whether the agent keeps something of this conversation already, and so can go on with it.
#[must_use]
pub fn has_begun(agent: AgentKind, conversation: &str, environment: &Environment) -> bool {
    match agent {
        AgentKind::Claude => claude::has_begun(conversation, environment),
        AgentKind::Gemini => true,
        AgentKind::Codex | AgentKind::Opencode | AgentKind::Generic => false,
    }
}

/// The headers of requests to the hub, with the credential as the agent takes it out of a variable.
fn headers(wiring: &Wiring<'_>, key: &str) -> Value {
    let mut headers = Map::new();
    headers.insert("Authorization".to_owned(), json!(format!("Bearer {key}")));
    if let Some(id) = wiring.conversation.id() {
        headers.insert(SESSION_HEADER.to_owned(), json!(id));
    }
    Value::Object(headers)
}

/// The hub as an entry of `mcpServers`, which many agents read.
fn common_config(wiring: &Wiring<'_>, wires: &Wires) -> Value {
    let key = format!("${{{}}}", wires.key_variable);
    let server = json!({ "type": "http", "url": wires.url, "headers": headers(wiring, &key) });
    json!({ "mcpServers": { SERVER: server } })
}

/// The arguments up to a lone `--`, after which there are no options.
fn options(args: &[OsString]) -> impl Iterator<Item = &str> {
    args.iter().map(|arg| arg.to_str().unwrap_or("?")).take_while(|arg| *arg != "--")
}

/// The value of an option: none where it is not there, empty where it has none.
fn value<'a>(args: &'a [OsString], names: &[&str]) -> Option<&'a str> {
    let mut rest = options(args).peekable();
    while let Some(arg) = rest.next() {
        if names.contains(&arg) {
            return Some(rest.peek().copied().filter(|next| !next.starts_with('-')).unwrap_or_default());
        }
        if let Some((name, value)) = arg.split_once('=')
            && names.contains(&name)
        {
            return Some(value);
        }
    }
    None
}

fn has(args: &[OsString], names: &[&str]) -> bool {
    value(args, names).is_some()
}

fn is_uuid(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok() && text.len() == 36
}

/// Puts the second into the first, key by key; what is no object is replaced.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// `~/` is the home of whoever runs the agent.
fn at_home(path: &str, environment: &Environment) -> std::path::PathBuf {
    let home = environment.get(plexus_kit::env::HOME);
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => std::path::Path::new(home).join(rest),
        _ => path.into(),
    }
}
