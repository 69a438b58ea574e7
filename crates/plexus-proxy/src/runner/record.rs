//! `run.json`: what is known of a run, for `plexus ps`, `plexus stop` and whoever clears up after a runner that died.

use plexus_proto::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use super::{AgentKind, Ending, ProcessId};

/// How the agent reaches the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    Proxy,
    Direct,
    /// Not at all: the hub was away, or the profile says so.
    None,
}

impl Via {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Direct => "direct",
            Self::None => "none",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Starting,
    Running,
    /// It crashed and is about to be started again.
    Restarting,
    /// It has ended, and the hub has not heard of it yet.
    Ended,
}

impl RunState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Ended => "ended",
        }
    }
}

/// Something that happened to a run, as the session is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEvent {
    /// `started`, `exited`, `crashed`, `stopped` or `restarted`.
    pub state: String,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub agent: AgentKind,
    /// The command that was asked for.
    pub command: String,
    pub state: RunState,
    pub started_at: Timestamp,
    pub runner: ProcessId,
    /// The agent, once it was started.
    pub process: Option<ProcessId>,
    /// Whether it leads a process group of its own, which then is all of it.
    pub own_group: bool,
    pub hub: String,
    pub via: Via,
    pub profile: Option<String>,
    pub node: Option<String>,
    /// The token of the run, and the name that it was made with.
    pub token: Option<TokenId>,
    pub token_name: Option<String>,
    /// What the agent calls itself as a client of MCP, and its conversation, as far as they are known.
    pub client: Option<String>,
    pub conversation: Option<String>,
    /// What happened, in order, and how much of it the hub has.
    pub events: Vec<RunEvent>,
    pub told: usize,
}

impl Record {
    /// The key of its session, where both halves of it are known.
    #[must_use]
    pub fn session_key(&self) -> Option<String> {
        let (client, conversation) = (self.client.as_deref()?, self.conversation.as_deref()?);
        Some(plexus_tools::SessionKey::of_conversation(client, conversation).as_str().to_owned())
    }

    /// Whether somebody has to tell the hub of it, or to take its token back.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.token.is_none() && self.told >= self.events.len()
    }
}
