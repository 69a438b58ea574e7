//! `tools/call`, the part that all revisions share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use http::HeaderMap;
use plexus_auth::Principal;
use plexus_kit::TraceContext;
use plexus_kit::trace::Incoming;
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

/// Key under which a client stamps a write that it may retry.
pub const IDEMPOTENCY_KEY: &str = "plexus/idempotency-key";
/// When a write happened that a client stamped and kept for a while: RFC 3339.
pub const OCCURRED_AT: &str = "plexus/occurred-at";
/// Largest `_meta` of another server's result, in bytes; a larger one is left out as a whole.
const MAX_FOREIGN_META: usize = 16 << 10;
/// What keys of `_meta` begin with that no other server may set.
const OUR_META: [&str; 2] = ["io.modelcontextprotocol/", "plexus/"];

/// `_meta` of a request as a map; empty when there is none.
pub(super) fn meta(params: &Params<'_>) -> Result<Map<String, Value>, RpcError> {
    match params.meta {
        None => Ok(Map::new()),
        Some(raw) if raw.get().starts_with('{') => match serde_json::from_str(raw.get()) {
            Ok(Meta(meta)) => Ok(meta),
            Err(error) => Err(RpcError::invalid_params(format!("params._meta cannot be read: {error}"))),
        },
        Some(_) => Err(RpcError::invalid_params("params._meta must be an object")),
    }
}

/// An object in which no member is there twice: of two, whoever looked at it on the way may have read the
/// other one.
struct Meta(Map<String, Value>);

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Meta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Meta, A::Error> {
                let mut meta = Map::new();
                while let Some((name, value)) = members.next_entry::<String, Value>()? {
                    if meta.contains_key(&name) {
                        return Err(de::Error::custom(format_args!("{name:?} is there twice")));
                    }
                    meta.insert(name, value);
                }
                Ok(Meta(meta))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// What a result is of, for whoever writes it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Tool,
    /// Of a resource, by the URI that the client asked for.
    Resource {
        uri: String,
    },
    Prompt,
}

impl Subject {
    fn kind(&self) -> CallKind {
        match self {
            Self::Tool => CallKind::Tool,
            Self::Resource { .. } => CallKind::Resources,
            Self::Prompt => CallKind::Prompts,
        }
    }
}

/// What a request wants to have called.
pub(super) struct Target {
    pub(super) subject: Subject,
    /// Name of a tool, or of what a server has its resources or prompts under.
    pub(super) name: String,
    /// An object, or null for none.
    pub(super) arguments: Value,
}

/// From the parameters of a request.
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
    Ok(Target { subject: Subject::Tool, name, arguments })
}

/// The call of it, for whoever drives it to say what its client wants to hear.
pub(super) fn begin(
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
    let trace = Incoming {
        call: TraceContext::extract(|name| meta.get(name).and_then(Value::as_str)),
        request: TraceContext::extract(|name| headers.get(name).and_then(|value| value.to_str().ok())),
    };
    Ok(Call::new(target.name, target.arguments, session, Via::Mcp)
        .with_kind(target.subject.kind())
        .with_idempotency_key(idempotency_key)
        .with_occurred_at(occurred_at)
        .with_cancel(cancel)
        .with_trace(trace))
}

/// When the call was first asked for, if it was kept since.
fn occurred_at(meta: &Map<String, Value>) -> Result<Option<Timestamp>, RpcError> {
    let Some(said) = meta.get(OCCURRED_AT) else { return Ok(None) };
    // The parser takes names of time zones too.
    let text = said.as_str().filter(|text| text.len() <= 40 && !text.contains('['));
    match text.and_then(|text| text.parse().ok()) {
        Some(at) => Ok(Some(at)),
        None => {
            let message = format!("_meta[{OCCURRED_AT:?}] must be a time such as \"2026-11-18T06:00:00Z\"");
            Err(RpcError::invalid_params(message))
        }
    }
}

/// The members of the result of a call, without the braces around them.
pub(super) fn result_members(
    reply: CallReply,
    subject: &Subject,
    dialect: Dialect,
) -> Result<String, RpcError> {
    let features = dialect.features();
    let (text, structured, is_error) = match reply.result {
        Ok(ToolOutput::Foreign(foreign)) => {
            return match foreign.lacking {
                Some(lacking) if foreign.is_error && dialect == Dialect::Modern => {
                    Err(errors::unasked(lacking))
                }
                _ => Ok(foreign_members(&foreign, features)),
            };
        }
        Ok(ToolOutput::Passed(result)) => return reads::members(&result, subject, dialect),
        Ok(ToolOutput::Own { text, structured }) => (text, structured.filter(|_| features.structured), false),
        Err(error) => (errors::told(error, subject, dialect)?, None, true),
    };
    let mut json = format!("\"content\":[{{\"type\":\"text\",\"text\":{}}}]", Value::from(text));
    if let Some(structured) = structured {
        json.push_str(",\"structuredContent\":");
        json.push_str(&structured.to_string());
    }
    json.push_str(if is_error { ",\"isError\":true" } else { ",\"isError\":false" });
    Ok(json)
}

/// The same of what another server gave back, text for text.
fn foreign_members(foreign: &ForeignOutput, features: Features) -> String {
    let is_allowed = |data: &&RawJson| features.any_data || data.as_str().starts_with('{');
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

/// `_meta` members that tell a caller how to find the call again and, of one that failed, why, in words
/// for programs; then what another server said in its own.
pub(super) fn reply_meta(reply: &CallReply) -> String {
    let replayed = if reply.replayed { ",\"plexus/replayed\":true" } else { "" };
    let error = match &reply.result {
        Ok(_) => String::new(),
        Err(error) => format!(",\"plexus/error\":{}", errors::for_programs(error)),
    };
    let foreign = match &reply.result {
        Ok(ToolOutput::Foreign(ForeignOutput { meta: Some(meta), .. })) => foreign_meta(meta),
        Ok(ToolOutput::Passed(result)) => reads::meta(result).as_ref().map(foreign_meta).unwrap_or_default(),
        Ok(_) | Err(_) => String::new(),
    };
    format!("\"plexus/call-id\":\"{}\"{replayed}{error}{foreign}", reply.call_id)
}

/// Members of another server's `_meta`, each after a comma, but for those that only the protocol and we may set.
fn foreign_meta(meta: &RawJson) -> String {
    if meta.len() > MAX_FOREIGN_META {
        return String::new();
    }
    let members: BTreeMap<String, &RawValue> = meta.parsed().unwrap_or_default();
    let theirs = |name: &str| !OUR_META.iter().any(|prefix| name.starts_with(prefix));
    let members = members.iter().filter(|(name, _)| theirs(name));
    members.map(|(name, value)| format!(",{}:{value}", Value::from(name.as_str()))).collect()
}

/// JSON text of the progress token, if the client wants progress.
pub(super) fn progress_token(meta: &Map<String, Value>) -> Result<Option<String>, RpcError> {
    match meta.get("progressToken") {
        None => Ok(None),
        Some(token @ (Value::String(_) | Value::Number(_))) => Ok(Some(token.to_string())),
        Some(_) => Err(RpcError::invalid_params("_meta.progressToken must be a string or an integer")),
    }
}

/// A progress notification; none when it does not go beyond the last one, as the protocol wants.
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

/// A line of another server's log, as a notification.
pub(super) fn log_json(line: &LogLine) -> String {
    let params = line.params.as_str();
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{params}}}")
}

/// There is no such tool, to this caller.
pub(super) fn unknown(error: CallError) -> RpcError {
    match errors::told(error, &Subject::Tool, Dialect::Modern) {
        Ok(message) => RpcError::invalid_params(message),
        Err(error) => error,
    }
}

/// Name of the thing a method acts on, for the `Mcp-Name` header.
pub(crate) fn routed_name<'a>(method: &str, params: &Params<'a>) -> Option<Cow<'a, str>> {
    let raw: Option<&RawValue> = match method {
        "tools/call" | "prompts/get" => params.name,
        "resources/read" => params.uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id,
        _ => return None,
    };
    Some(raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default())
}
