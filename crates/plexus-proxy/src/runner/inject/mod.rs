//! The configuration that is added to an agent for a run; one file per agent.
//!
//! Arguments are inserted before those of the user, which therefore take precedence; variables and files belong to
//! the run. The secret is in one variable only. Settings of a profile that an agent does not support become notes.

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

use super::{AgentKind, RunFolder};

/// The name of the hub in an agent's list of MCP servers.
pub(crate) const SERVER: &str = "plexus";
/// The header that names a conversation.
const SESSION_HEADER: &str = "Plexus-Session";

/// The conversation to which an agent's calls will belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentConversation {
    /// Known by the id that the agent uses in its own transcript.
    Known(String),
    /// Named by the runner in requests to the hub; the client name of the agent is not known yet.
    Named(String),
    /// Chosen by the agent, which names it in its requests.
    ChosenByAgent,
}

impl AgentConversation {
    /// The id, if it is known already.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Known(id) | Self::Named(id) => Some(id),
            Self::ChosenByAgent => None,
        }
    }
}

/// How the agent reaches the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubAccess {
    pub url: String,
    /// The environment variable that contains the credential.
    pub key_variable: String,
}

/// The input for configuring an agent.
#[derive(Debug)]
pub struct AgentSetup<'a> {
    pub run: &'a str,
    pub program: &'a std::path::Path,
    pub folder: &'a RunFolder,
    /// None if the agent is not connected to a hub.
    pub hub: Option<&'a HubAccess>,
    pub conversation: &'a AgentConversation,
    pub settings: &'a ProfileRun,
    /// Text to append to the agent's system prompt.
    pub system_prompt: Option<&'a str>,
    /// The user's arguments.
    pub args: &'a [OsString],
    pub environment: &'a Environment,
    /// The agent is restarted in the same run and can resume its conversation.
    pub resume: bool,
}

/// Arguments and variables added to those of the agent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InjectedConfig {
    pub args: Vec<OsString>,
    pub env: Vec<(String, String)>,
    /// Messages for the user.
    pub notes: Vec<String>,
}

impl InjectedConfig {
    fn arg(&mut self, arg: impl Into<OsString>) {
        self.args.push(arg.into());
    }

    fn env(&mut self, name: &str, value: impl Into<String>) {
        self.env.push((name.to_owned(), value.into()));
    }

    fn note_unsupported(&mut self, agent: AgentKind, setting: &str) {
        self.notes.push(format!("the profile sets {setting}, which {} does not support", agent.as_str()));
    }
}

/// Chooses the conversation; also returns a note for the user, if any.
pub fn choose_conversation(
    agent: AgentKind,
    args: &[OsString],
    name: Option<&str>,
    run: &str,
) -> Result<(AgentConversation, Option<String>), String> {
    match agent {
        AgentKind::Claude => claude::conversation(args, name, run),
        AgentKind::Codex => codex::conversation(args, name),
        AgentKind::Gemini => gemini::conversation(args, name, run),
        AgentKind::Opencode | AgentKind::Generic => {
            Ok((AgentConversation::Named(name.map_or_else(|| format!("run-{run}"), str::to_owned)), None))
        }
    }
}

/// Everything that the agent is given.
pub fn inject(agent: AgentKind, setup: &AgentSetup<'_>) -> io::Result<InjectedConfig> {
    let mut injected = match agent {
        AgentKind::Claude => claude::inject(setup)?,
        AgentKind::Codex => codex::inject(setup),
        AgentKind::Gemini => gemini::inject(setup)?,
        AgentKind::Opencode => opencode::inject(setup)?,
        AgentKind::Generic => generic::inject(setup)?,
    };
    injected.env("PLEXUS_RUN_ID", setup.run);
    let supports_approval = matches!(agent, AgentKind::Claude | AgentKind::Codex | AgentKind::Gemini);
    if let Some(mode) = setup.settings.approval_mode.as_ref().filter(|_| supports_approval) {
        injected.notes.push(format!("the profile sets the approval mode {mode:?}"));
    }
    if supports_approval && setup.hub.is_some() && setup.settings.allow_tools == Some(true) {
        injected.notes.push("the profile lets the agent call the hub's tools without asking".to_owned());
    }
    Ok(injected)
}

/// Whether the agent has stored this conversation and can resume it.
#[must_use]
pub fn can_resume(agent: AgentKind, conversation: &str, environment: &Environment) -> bool {
    match agent {
        AgentKind::Claude => claude::has_transcript(conversation, environment),
        AgentKind::Gemini => true,
        AgentKind::Codex | AgentKind::Opencode | AgentKind::Generic => false,
    }
}

/// The headers of requests to the hub. `key` is the agent's syntax for the variable with the credential.
fn headers(setup: &AgentSetup<'_>, key: &str) -> Value {
    let mut headers = Map::new();
    headers.insert("Authorization".to_owned(), json!(format!("Bearer {key}")));
    if let Some(id) = setup.conversation.id() {
        headers.insert(SESSION_HEADER.to_owned(), json!(id));
    }
    Value::Object(headers)
}

/// The hub as an entry of `mcpServers`, a format that many agents read.
fn common_config(setup: &AgentSetup<'_>, hub: &HubAccess) -> Value {
    let key = format!("${{{}}}", hub.key_variable);
    let server = json!({ "type": "http", "url": hub.url, "headers": headers(setup, &key) });
    json!({ "mcpServers": { SERVER: server } })
}

/// The arguments before `--`, after which there are no options.
fn options(args: &[OsString]) -> impl Iterator<Item = &str> {
    args.iter().map(|arg| arg.to_str().unwrap_or("?")).take_while(|arg| *arg != "--")
}

/// The value of an option; none if the option is absent, empty if it has no value.
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

/// Merges objects recursively; other values are replaced.
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

/// Expands a leading `~/` to the user's home folder.
fn expand_home(path: &str, environment: &Environment) -> std::path::PathBuf {
    let home = environment.get(plexus_kit::env::HOME);
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => std::path::Path::new(home).join(rest),
        _ => path.into(),
    }
}
