//! `run.json`: the record of a run, for `plexus ps`, `plexus stop` and the cleanup after a runner that died.

use plexus_proto::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use super::{AgentExit, AgentKind, ProcessId};

/// How the agent reaches the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HubRoute {
    Proxy,
    Direct,
    /// Not connected, because the hub was away or the profile says so.
    None,
}

impl HubRoute {
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
    /// It has crashed and will be restarted.
    Restarting,
    /// It has ended, and the hub does not know it yet.
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

/// An event of a run, as reported to its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEvent {
    /// `started`, `exited`, `crashed`, `stopped` or `restarted`.
    pub state: String,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<AgentExit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: String,
    pub agent: AgentKind,
    /// The command given by the user.
    pub command: String,
    pub state: RunState,
    pub started_at: Timestamp,
    pub runner: ProcessId,
    /// The agent, once it has started.
    pub process: Option<ProcessId>,
    /// Whether the agent leads its own process group.
    pub own_group: bool,
    pub hub: String,
    pub via: HubRoute,
    pub profile: Option<String>,
    pub node: Option<String>,
    /// The token of the run, and its name.
    pub token: Option<TokenId>,
    pub token_name: Option<String>,
    /// The agent's MCP client name and its conversation, if known.
    pub client: Option<String>,
    pub conversation: Option<String>,
    /// The events in order.
    pub events: Vec<RunEvent>,
    /// Number of events that the hub has.
    #[serde(rename = "told")]
    pub reported: usize,
}

impl RunRecord {
    /// The key of its session, if client and conversation are known.
    #[must_use]
    pub fn session_key(&self) -> Option<String> {
        let (client, conversation) = (self.client.as_deref()?, self.conversation.as_deref()?);
        Some(plexus_tools::SessionKey::of_conversation(client, conversation).as_str().to_owned())
    }

    /// Whether all events are reported and the token is revoked.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.token.is_none() && self.reported >= self.events.len()
    }
}
