//! Calls (`tools/call`, `resources/read`, `prompts/get`): the part that all revisions share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use http::HeaderMap;
use plexus_auth::Principal;
use plexus_kit::TraceContext;
use plexus_kit::trace::ReceivedContexts;
use plexus_proto::Timestamp;
use plexus_tools::{
    Call, CallError, CallKind, CallReply, ForeignOutput, LogLine, Progress, RawJson, SessionKey, ToolOutput,
    Via,
};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::rpc::{Params, RpcError};
use super::{State, errors, reads};
use crate::version::{Dialect, Features};

/// `_meta` key of the idempotency key of a write that the client may retry.
pub const IDEMPOTENCY_KEY: &str = "plexus/idempotency-key";
/// `_meta` key of the time of a write that the client buffered, in RFC 3339.
pub const OCCURRED_AT: &str = "plexus/occurred-at";
/// Largest `_meta` of another server's result, in bytes; a larger one is left out completely.
const MAX_FOREIGN_META: usize = 16 << 10;
/// Prefixes of `_meta` keys that no other server may set.
const RESERVED_META: [&str; 2] = ["io.modelcontextprotocol/", "plexus/"];

/// The `_meta` of a request; empty if there is none.
pub(super) fn meta(params: &Params<'_>) -> Result<Map<String, Value>, RpcError> {
    match params.meta {
        None => Ok(Map::new()),
        Some(raw) if raw.get().starts_with('{') => match serde_json::from_str(raw.get()) {
            Ok(UniqueMembers(meta)) => Ok(meta),
            Err(error) => Err(RpcError::invalid_params(format!("params._meta cannot be read: {error}"))),
        },
        Some(_) => Err(RpcError::invalid_params("params._meta must be an object")),
    }
}

/// An object without duplicate members. Of two duplicates, an intermediary may have read the other one.
struct UniqueMembers(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = UniqueMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<UniqueMembers, A::Error> {
                let mut meta = Map::new();
                while let Some((name, value)) = members.next_entry::<String, Value>()? {
                    if meta.contains_key(&name) {
                        return Err(de::Error::custom(format_args!("{name:?} occurs twice")));
                    }
                    meta.insert(name, value);
                }
                Ok(UniqueMembers(meta))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// What a call acts on, which determines the form of its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TargetKind {
    Tool,
    /// A resource, by the URI in the client's request.
    Resource {
        uri: String,
    },
    Prompt,
}

impl TargetKind {
    fn call_kind(&self) -> CallKind {
        match self {
            Self::Tool => CallKind::Tool,
            Self::Resource { .. } => CallKind::Resources,
            Self::Prompt => CallKind::Prompts,
        }
    }
}

/// The target of a call.
pub(super) struct Target {
    pub(super) kind: TargetKind,
    /// The name of a tool, or of the facility of a server's resources or prompts.
    pub(super) name: String,
    /// An object, or null if there are none.
    pub(super) arguments: Value,
}

/// The target that a request names.
pub(super) fn target(
    state: &State,
    principal: &Principal,
    method: &str,
    params: &Params<'_>,
) -> Result<Target, RpcError> {
    if method != "tools/call" {
        return reads::target(state, principal, method, params);
    }
    let name = super::rpc::text(params.name)
        .ok_or_else(|| RpcError::invalid_params("params.name must be the name of a tool"))?;
    let arguments = match params.arguments {
        None => Value::Null,
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|e| RpcError::invalid_params(format!("params.arguments cannot be read: {e}")))?,
    };
    if !matches!(arguments, Value::Null | Value::Object(_)) {
        return Err(RpcError::invalid_params("params.arguments must be an object"));
    }
    Ok(Target { kind: TargetKind::Tool, name, arguments })
}

/// Builds the call of a target. The caller adds the sinks for what its client wants to receive.
pub(super) fn build(
    target: Target,
    meta: &Map<String, Value>,
    headers: &HeaderMap,
    session: SessionKey,
    cancel: CancellationToken,
) -> Result<Call, RpcError> {
    let idempotency_key = match meta.get(IDEMPOTENCY_KEY) {
        None => None,
        Some(Value::String(key)) => Some(key.clone()),
        Some(_) => {
            return Err(RpcError::invalid_params(format!("_meta[{IDEMPOTENCY_KEY:?}] must be a string")));
        }
    };
    let occurred_at = occurred_at(meta)?;
    let trace = ReceivedContexts {
        call: TraceContext::extract(|name| meta.get(name).and_then(Value::as_str)),
        request: TraceContext::extract(|name| headers.get(name).and_then(|value| value.to_str().ok())),
    };
    Ok(Call::new(target.name, target.arguments, session, Via::Mcp)
        .with_kind(target.kind.call_kind())
        .with_idempotency_key(idempotency_key)
        .with_occurred_at(occurred_at)
        .with_cancel(cancel)
        .with_trace(trace))
}

/// The time of a buffered call.
fn occurred_at(meta: &Map<String, Value>) -> Result<Option<Timestamp>, RpcError> {
    let Some(value) = meta.get(OCCURRED_AT) else { return Ok(None) };
    // The parser also accepts time zone names.
    let text = value.as_str().filter(|text| text.len() <= 40 && !text.contains('['));
    match text.and_then(|text| text.parse().ok()) {
        Some(at) => Ok(Some(at)),
        None => {
            let message = format!("_meta[{OCCURRED_AT:?}] must be a time such as \"2026-11-18T06:00:00Z\"");
            Err(RpcError::invalid_params(message))
        }
    }
}

/// The members of a call's result, without the enclosing braces.
pub(super) fn result_members(
    reply: CallReply,
    kind: &TargetKind,
    dialect: Dialect,
) -> Result<String, RpcError> {
    let features = dialect.features();
    let (text, structured, is_error) = match reply.result {
        Ok(ToolOutput::Foreign(foreign)) => {
            return match foreign.lacking {
                Some(lacking) if foreign.is_error && dialect == Dialect::Modern => {
                    Err(errors::missing_capabilities(lacking))
                }
                _ => Ok(foreign_members(&foreign, features)),
            };
        }
        Ok(ToolOutput::Passed(result)) => return reads::members(&result, kind, dialect),
        Ok(ToolOutput::Own { text, structured }) => (text, structured.filter(|_| features.structured), false),
        Err(error) => (errors::result_text(error, kind, dialect)?, None, true),
    };
    let mut json = format!("\"content\":[{{\"type\":\"text\",\"text\":{}}}]", Value::from(text));
    if let Some(structured) = structured {
        json.push_str(",\"structuredContent\":");
        json.push_str(&structured.to_string());
    }
    json.push_str(if is_error { ",\"isError\":true" } else { ",\"isError\":false" });
    Ok(json)
}

/// The members of another server's result, unchanged.
fn foreign_members(foreign: &ForeignOutput, features: Features) -> String {
    let is_allowed = |data: &&RawJson| features.non_object_data || data.as_str().starts_with('{');
    let structured = foreign.structured.as_ref().filter(|_| features.structured).filter(is_allowed);
    let length = foreign.content.len() + structured.map_or(0, RawJson::len);
    let mut json = String::with_capacity(length + 64);
    json.push_str("\"content\":");
    json.push_str(foreign.content.as_str());
    if let Some(structured) = structured {
        json.push_str(",\"structuredContent\":");
        json.push_str(structured.as_str());
    }
    json.push_str(if foreign.is_error { ",\"isError\":true" } else { ",\"isError\":false" });
    json
}

/// The `_meta` members of a result: the call's id, the error code of a failed call, and the members that another
/// server set.
pub(super) fn reply_meta(reply: &CallReply) -> String {
    let replayed = if reply.replayed { ",\"plexus/replayed\":true" } else { "" };
    let error = match &reply.result {
        Ok(_) => String::new(),
        Err(error) => format!(",\"plexus/error\":{}", errors::error_data(error)),
    };
    let foreign = match &reply.result {
        Ok(ToolOutput::Foreign(ForeignOutput { meta: Some(meta), .. })) => foreign_meta(meta),
        Ok(ToolOutput::Passed(result)) => reads::meta(result).as_ref().map(foreign_meta).unwrap_or_default(),
        Ok(_) | Err(_) => String::new(),
    };
    format!("\"plexus/call-id\":\"{}\"{replayed}{error}{foreign}", reply.call_id)
}

/// The members of another server's `_meta`, each after a comma, except for reserved ones.
fn foreign_meta(meta: &RawJson) -> String {
    if meta.len() > MAX_FOREIGN_META {
        return String::new();
    }
    let members: BTreeMap<String, &RawValue> = meta.parsed().unwrap_or_default();
    let is_allowed = |name: &str| !RESERVED_META.iter().any(|prefix| name.starts_with(prefix));
    let members = members.iter().filter(|(name, _)| is_allowed(name));
    members.map(|(name, value)| format!(",{}:{value}", Value::from(name.as_str()))).collect()
}

/// The progress token as JSON, if the client wants progress.
pub(super) fn progress_token(meta: &Map<String, Value>) -> Result<Option<String>, RpcError> {
    match meta.get("progressToken") {
        None => Ok(None),
        Some(token @ (Value::String(_) | Value::Number(_))) => Ok(Some(token.to_string())),
        Some(_) => Err(RpcError::invalid_params("_meta.progressToken must be a string or an integer")),
    }
}

/// Writes progress notifications. Skips progress that does not increase, as the protocol requires.
pub(super) struct ProgressWriter {
    token: String,
    last: f64,
}

impl ProgressWriter {
    pub(super) fn new(token: String) -> Self {
        Self { token, last: f64::NEG_INFINITY }
    }

    pub(super) fn json(&mut self, progress: &Progress) -> Option<String> {
        if progress.done <= self.last {
            return None;
        }
        self.last = progress.done;
        let total = progress.total.map(|total| format!(",\"total\":{total}")).unwrap_or_default();
        let message = progress
            .message
            .as_deref()
            .map(|text| format!(",\"message\":{}", Value::from(text)))
            .unwrap_or_default();
        Some(format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{},\"progress\":{}{total}{message}}}}}",
            self.token, progress.done,
        ))
    }
}

/// A log line as a notification.
pub(super) fn log_json(line: &LogLine) -> String {
    let params = line.params.as_str();
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{params}}}")
}

/// The error for a tool that this caller does not see.
pub(super) fn unknown_tool(error: CallError) -> RpcError {
    match errors::result_text(error, &TargetKind::Tool, Dialect::Modern) {
        Ok(message) => RpcError::invalid_params(message),
        Err(error) => error,
    }
}

/// The value of the `Mcp-Name` header: the name of what a method acts on.
pub(crate) fn routed_name<'a>(method: &str, params: &Params<'a>) -> Option<Cow<'a, str>> {
    let raw: Option<&RawValue> = match method {
        "tools/call" | "prompts/get" => params.name,
        "resources/read" => params.uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id,
        _ => return None,
    };
    Some(raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default())
}
