//! The agents that are known.

use serde::{Deserialize, Serialize};

/// Whom there is a way to wire up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Claude,
    Codex,
    Gemini,
    Opencode,
    /// Any command, which is told of the hub by variables.
    Generic,
}

impl AgentKind {
    /// Those that have a name.
    pub const KNOWN: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::KNOWN.into_iter().find(|kind| kind.as_str() == name)
    }

    /// What it is called, which is also its command.
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

    /// What it calls itself as a client of MCP, where that is known.
    #[must_use]
    pub fn client(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("claude-code"),
            Self::Codex => Some("codex-mcp-client"),
            Self::Gemini | Self::Opencode | Self::Generic => None,
        }
    }

    /// How it is usually installed.
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
