//! The agents that are known, and where their programs are.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

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

/// The program that a shell would run for this command.
#[must_use]
pub fn find_program(command: &str, path: &str) -> Option<PathBuf> {
    let runs = |file: &Path| {
        fs_err::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        let file = std::path::absolute(command).ok()?;
        return runs(&file).then_some(file);
    }
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(command)).find(|file| runs(file))
}
