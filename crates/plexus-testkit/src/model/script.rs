//! What a scripted model says: turns, one for each time the client asks.

use std::time::Duration;

use serde_json::Value;

use super::request::OfferedTool;

/// The answers of a model, in order.
///
/// Where a conversation stands is read from the conversation itself: the turn after the last one whose
/// text or calls it carries. So a client may ask again after an error, and several conversations may play
/// the same script side by side. A request that does not offer every tool the script calls (a title, a
/// probe, a summary) is no part of the script and gets a harmless answer.
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

    /// Every tool that some turn calls.
    pub(super) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.turns.iter().flat_map(|turn| turn.calls.iter().map(|(tool, _)| tool))
    }
}

/// One answer: text, calls of tools, or both.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub(super) text: Option<String>,
    pub(super) calls: Vec<(Tool, Value)>,
    pub(super) pause: Option<String>,
    pub(super) faults: Vec<Fault>,
    pub(super) usage: Usage,
}

impl Turn {
    /// The model says something; with nothing else, the client's turn is over.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// The model calls a tool.
    pub fn call(tool: Tool, arguments: Value) -> Self {
        Self::default().and_call(tool, arguments)
    }

    /// One more call in the same turn.
    #[must_use]
    pub fn and_call(mut self, tool: Tool, arguments: Value) -> Self {
        self.calls.push((tool, arguments));
        self
    }

    /// Holds the answer back until the test releases the point of this name.
    #[must_use]
    pub fn paused_at(mut self, point: impl Into<String>) -> Self {
        self.pause = Some(point.into());
        self
    }

    /// The next attempt at this turn ends so; each fault is for one attempt, in the order given.
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

/// Which of the offered tools is meant. Clients put prefixes before the names of MCP tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tool {
    /// The tool of exactly this name.
    Named(String),
    /// The tool whose name is this word, or ends with it after something that is no letter or digit.
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

    /// The one tool that is meant; else why there is none.
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

/// What goes wrong with an answer.
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

/// Tokens that an answer says it took.
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
