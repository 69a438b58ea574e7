//! What a client asked, in one shape for all wire formats.

use serde_json::{Map, Value};

/// Headers whose values are not kept.
const SECRET: [&str; 4] = ["authorization", "x-api-key", "cookie", "proxy-authorization"];
/// What stands in their place.
const REMOVED: &str = "(removed)";

/// Members of a body that become tools and messages.
const READ: [&str; 5] = ["tools", "messages", "input", "system", "instructions"];

/// The language of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// OpenAI Responses, `/v1/responses`.
    Responses,
    /// OpenAI Chat Completions, `/v1/chat/completions`.
    Chat,
    /// Anthropic Messages, `/v1/messages`.
    Messages,
}

/// A request as it was received, and what was made of it.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub wire: Wire,
    /// In the order received; the values of credentials are left out.
    pub headers: Vec<(String, String)>,
    pub asked: Asked,
    pub played: Played,
}

impl ModelRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Full names of the tools that were offered.
    pub fn tools(&self) -> Vec<String> {
        self.asked.tools.iter().map(OfferedTool::full_name).collect()
    }

    /// Every result of a tool that the conversation has so far.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.asked.messages.iter().flat_map(|message| &message.results)
    }
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Played {
    /// With the turn of this number, from 0.
    Turn(usize),
    /// With a fault in place of that turn.
    Fault(usize),
    /// With a harmless word, since it is no part of the script.
    Aside,
    /// With an error, since the script does not fit.
    Misfit(String),
}

/// What the body says.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub model: String,
    pub stream: bool,
    pub tools: Vec<OfferedTool>,
    pub messages: Vec<Message>,
    /// Every other member, as it came: `max_tokens`, `tool_choice`, `reasoning` …
    pub settings: Map<String, Value>,
}

/// A tool the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Codex offers the tools of an MCP server as a group with a name of its own.
    pub namespace: Option<String>,
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

impl OfferedTool {
    /// With its namespace, in the way Claude Code writes it: `mcp__plexus__todo`.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}__{}", namespace.trim_end_matches('_'), self.name),
            None => self.name.clone(),
        }
    }
}

/// One entry of the conversation. Where a wire format has a call or a result as an item of its own, it is
/// a message of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// As the client wrote it: `system`, `user`, `assistant`, `tool` …
    pub role: String,
    pub text: String,
    pub calls: Vec<MadeCall>,
    pub results: Vec<ToolResult>,
}

/// A call of a tool that the model made before.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeCall {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub call_id: String,
    pub text: String,
    /// Only Anthropic's format says so.
    pub is_error: bool,
}

/// The members of a body that are not read elsewhere.
pub(super) fn settings(body: Value) -> Map<String, Value> {
    let Value::Object(mut members) = body else { return Map::new() };
    members.retain(|member, _| !READ.contains(&member.as_str()));
    members
}

/// The headers of a request without the values of credentials.
pub(super) fn headers(headers: &hyper::HeaderMap) -> Vec<(String, String)> {
    let kept = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        let secret = SECRET.contains(&name.as_str());
        let value = if secret { REMOVED.into() } else { String::from_utf8_lossy(value.as_bytes()) };
        (name.as_str().to_owned(), value.into_owned())
    };
    headers.iter().map(kept).collect()
}

/// A member that must be there and be a text.
pub(super) fn text_of<'a>(value: &'a Value, member: &str, of: &str) -> Result<&'a str, String> {
    value[member].as_str().ok_or_else(|| format!("{of}: `{member}` must be a text, not {}", value[member]))
}

/// A list that may be left out.
pub(super) fn list_of<'a>(value: &'a Value, member: &str) -> Result<&'a [Value], String> {
    match &value[member] {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        other => Err(format!("`{member}` must be a list, not {other}")),
    }
}

/// A flag that may be left out.
pub(super) fn flag_of(value: &Value, member: &str) -> Result<bool, String> {
    match &value[member] {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        other => Err(format!("`{member}` must be true or false, not {other}")),
    }
}

/// Text that is written as such, or as a list of parts with a `text` each.
pub(super) fn text_in(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
