//! The supported agents.

use serde::{Deserialize, Serialize};

/// An agent for which the runner knows how to connect it to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Claude,
    Codex,
    Gemini,
    Opencode,
    /// Any command; it finds the hub by environment variables.
    Generic,
}

impl AgentKind {
    /// The agents with a name.
    pub const KNOWN: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::KNOWN.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The name, which is also the command.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Generic => "generic",
        }
    }

    /// The name in its MCP `clientInfo`, if known.
    #[must_use]
    pub fn client(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("claude-code"),
            Self::Codex => Some("codex-mcp-client"),
            Self::Gemini | Self::Opencode | Self::Generic => None,
        }
    }

    /// The usual command to install it.
    #[must_use]
    pub fn install(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("npm install -g @anthropic-ai/claude-code"),
            Self::Codex => Some("npm install -g @openai/codex"),
            Self::Gemini => Some("npm install -g @google/gemini-cli"),
            Self::Opencode => Some("npm install -g opencode-ai"),
            Self::Generic => None,
        }
    }
}
