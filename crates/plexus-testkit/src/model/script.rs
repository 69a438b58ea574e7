//! The script of a model: turns, one for each request of the client.

use std::time::Duration;

use serde_json::Value;

use super::request::OfferedTool;

/// The answers of a model, in order.
///
/// The position in a conversation is derived from the conversation itself: the turn after the last one whose text
/// or calls it contains. So a client may retry after an error, and several conversations may play the same script
/// concurrently. A request that does not offer every tool of the script (for a title, a probe, a summary) is not
/// part of the script and gets a neutral answer.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub(super) turns: Vec<Turn>,
}

impl Script {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn turn(mut self, turn: Turn) -> Self {
        self.turns.push(turn);
        self
    }

    pub fn len(&self) -> usize {
        self.turns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// All tools called by the turns.
    pub(super) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.turns.iter().flat_map(|turn| turn.calls.iter().map(|(tool, _)| tool))
    }
}

/// One answer: text, tool calls, or both.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub(super) text: Option<String>,
    pub(super) calls: Vec<(Tool, Value)>,
    pub(super) pause: Option<String>,
    pub(super) faults: Vec<Fault>,
    pub(super) usage: Usage,
}

impl Turn {
    /// The model sends a text; without calls, it ends the client's turn.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// The model calls a tool.
    pub fn call(tool: Tool, arguments: Value) -> Self {
        Self::default().and_call(tool, arguments)
    }

    /// Adds another call to the turn.
    #[must_use]
    pub fn and_call(mut self, tool: Tool, arguments: Value) -> Self {
        self.calls.push((tool, arguments));
        self
    }

    /// Delays the answer until the test releases the point with this name.
    #[must_use]
    pub fn paused_at(mut self, point: impl Into<String>) -> Self {
        self.pause = Some(point.into());
        self
    }

    /// Makes the next attempt at this turn fail; each fault applies to one attempt, in the given order.
    #[must_use]
    pub fn failing(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Usage { input, output };
        self
    }
}

/// Selects one of the offered tools. Clients prefix the names of MCP tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tool {
    /// The tool with exactly this name.
    Named(String),
    /// The tool whose name is this word, or ends with it after a character that is not alphanumeric.
    Ending(String),
}

impl Tool {
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named(name.into())
    }

    pub fn ending(word: impl Into<String>) -> Self {
        Self::Ending(word.into())
    }

    fn matches(&self, tool: &OfferedTool) -> bool {
        let full = tool.full_name();
        match self {
            Self::Named(name) => full == *name,
            Self::Ending(word) => full.strip_suffix(word.as_str()).is_some_and(|before| {
                !before.chars().next_back().is_some_and(|last| last.is_ascii_alphanumeric())
            }),
        }
    }

    pub(super) fn is_offered(&self, tools: &[OfferedTool]) -> bool {
        tools.iter().any(|tool| self.matches(tool))
    }

    /// The one matching tool, or the reason why there is none.
    pub(super) fn among<'a>(&self, tools: &'a [OfferedTool]) -> Result<&'a OfferedTool, String> {
        let found: Vec<&OfferedTool> = tools.iter().filter(|tool| self.matches(tool)).collect();
        match found.as_slice() {
            [tool] => Ok(tool),
            [] => Err(format!("the script calls {self:?}, which the client does not offer")),
            several => {
                let names: Vec<String> = several.iter().map(|tool| tool.full_name()).collect();
                Err(format!("the script calls {self:?}, which could be any of {}", names.join(", ")))
            }
        }
    }
}

/// A fault of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 429, with the seconds to wait.
    RateLimited { retry_after: Duration },
    /// 500.
    Broken,
    /// 529 from Anthropic, 503 from OpenAI.
    Overloaded,
    /// The connection is lost in the middle of the answer.
    CutOff,
}

/// Token usage reported by an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 10 }
    }
}
