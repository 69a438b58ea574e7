//! A client's request, in one form for all wire formats.

use serde_json::{Map, Value};

/// Headers whose values are not recorded.
const SECRET_HEADERS: [&str; 4] = ["authorization", "x-api-key", "cookie", "proxy-authorization"];
/// Replaces these values.
const REDACTED: &str = "(removed)";

/// Members of a body that are parsed as tools and messages.
const PARSED_MEMBERS: [&str; 5] = ["tools", "messages", "input", "system", "instructions"];

/// The wire format of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// OpenAI Responses, `/v1/responses`.
    Responses,
    /// OpenAI Chat Completions, `/v1/chat/completions`.
    Chat,
    /// Anthropic Messages, `/v1/messages`.
    Messages,
}

/// A request as received, and how it was answered.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub wire: Wire,
    /// In the order received; credentials are removed.
    pub headers: Vec<(String, String)>,
    pub parsed: ParsedRequest,
    pub answer_source: AnswerSource,
}

impl ModelRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Full names of the offered tools.
    pub fn tools(&self) -> Vec<String> {
        self.parsed.tools.iter().map(OfferedTool::full_name).collect()
    }

    /// All tool results in the conversation so far.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parsed.messages.iter().flat_map(|message| &message.results)
    }
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerSource {
    /// With the turn of this number, from 0.
    Turn(usize),
    /// With a fault in place of that turn.
    Fault(usize),
    /// With a neutral answer, because it is not part of the script.
    Unscripted,
    /// With an error, because it does not match the script.
    Mismatch(String),
}

/// The body of a request, in one form for all wire formats.
#[derive(Debug, Clone, Default)]
pub struct ParsedRequest {
    pub model: String,
    pub stream: bool,
    pub tools: Vec<OfferedTool>,
    pub messages: Vec<Message>,
    /// All other members, unchanged: `max_tokens`, `tool_choice`, `reasoning` …
    pub settings: Map<String, Value>,
}

/// A tool the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Codex offers the tools of an MCP server as a group with its own name.
    pub namespace: Option<String>,
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

impl OfferedTool {
    /// With its namespace, as Claude Code writes it: `mcp__plexus__todo`.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}__{}", namespace.trim_end_matches('_'), self.name),
            None => self.name.clone(),
        }
    }
}

/// One entry of the conversation. In wire formats where a call or a result is a separate item, it is a separate
/// message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// As written by the client: `system`, `user`, `assistant`, `tool` …
    pub role: String,
    pub text: String,
    pub calls: Vec<MadeCall>,
    pub results: Vec<ToolResult>,
}

/// An earlier tool call of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeCall {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub call_id: String,
    pub text: String,
    /// Reported only in Anthropic's format.
    pub is_error: bool,
}

/// The members of a body that are not parsed elsewhere.
pub(super) fn settings(body: Value) -> Map<String, Value> {
    let Value::Object(mut members) = body else { return Map::new() };
    members.retain(|member, _| !PARSED_MEMBERS.contains(&member.as_str()));
    members
}

/// The headers of a request without credentials.
pub(super) fn headers(headers: &hyper::HeaderMap) -> Vec<(String, String)> {
    let redacted = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        let secret = SECRET_HEADERS.contains(&name.as_str());
        let value = if secret { REDACTED.into() } else { String::from_utf8_lossy(value.as_bytes()) };
        (name.as_str().to_owned(), value.into_owned())
    };
    headers.iter().map(redacted).collect()
}

/// A required string member.
pub(super) fn text_of<'a>(value: &'a Value, member: &str, of: &str) -> Result<&'a str, String> {
    value[member].as_str().ok_or_else(|| format!("{of}: `{member}` must be a text, not {}", value[member]))
}

/// An optional list.
pub(super) fn list_of<'a>(value: &'a Value, member: &str) -> Result<&'a [Value], String> {
    match &value[member] {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        other => Err(format!("`{member}` must be a list, not {other}")),
    }
}

/// An optional flag.
pub(super) fn flag_of(value: &Value, member: &str) -> Result<bool, String> {
    match &value[member] {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        other => Err(format!("`{member}` must be true or false, not {other}")),
    }
}

/// Content that is a string, or a list of parts with a `text` each.
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
