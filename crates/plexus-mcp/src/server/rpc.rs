//! JSON-RPC: parses messages without copying, and builds answers around existing JSON text.

use std::borrow::Cow;
use std::fmt::Write;

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

pub const PARSE_ERROR: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
pub const INTERNAL_ERROR: i32 = -32603;
/// Session era only.
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;
pub(super) const HEADER_MISMATCH: i32 = -32020;
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;

/// A JSON-RPC error with its HTTP status.
#[derive(Debug)]
pub struct RpcError {
    pub status: StatusCode,
    pub code: i32,
    pub message: String,
    pub data: Option<Value>,
    /// The request's id as JSON, once known.
    pub id: Option<String>,
}

impl RpcError {
    pub fn new(status: StatusCode, code: i32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), data: None, id: None }
    }

    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
    }

    /// An error of a method about its parameters.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, INVALID_PARAMS, message)
    }

    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub fn with_id(mut self, id: &RawValue) -> Self {
        self.id = Some(id.get().to_owned());
        self
    }

    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The whole message; without an id if none could be read.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"jsonrpc\":\"2.0\",");
        if let Some(id) = &self.id {
            let _ = write!(json, "\"id\":{id},");
        }
        let _ = write!(
            json,
            "\"error\":{{\"code\":{},\"message\":{}",
            self.code,
            Value::from(self.message.as_str())
        );
        if let Some(data) = &self.data {
            let _ = write!(json, ",\"data\":{data}");
        }
        json.push_str("}}");
        json
    }

    pub(super) fn into_response(self) -> Response {
        json_response(self.status, self.to_json())
    }
}

/// The error for an unknown method.
pub(super) fn method_not_found(method: &str) -> RpcError {
    let shown: String = method.chars().take(100).collect();
    RpcError::new(StatusCode::OK, METHOD_NOT_FOUND, format!("Method not found: {shown}"))
}

pub(super) fn json_response(status: StatusCode, json: String) -> Response {
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The response to a message that has no answer.
pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// `{"jsonrpc":"2.0","id":…,"result":…}` around a result in JSON.
pub fn result_json(id: &RawValue, result: &str) -> String {
    let mut json = String::with_capacity(result.len() + id.get().len() + 40);
    json.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    json.push_str(id.get());
    json.push_str(",\"result\":");
    json.push_str(result);
    json.push('}');
    json
}

/// A received message.
#[derive(Debug)]
pub enum Message<'a> {
    Request(Request<'a>),
    Notification(Notification<'a>),
    /// An answer to a question of the hub: a result or an error.
    Response {
        id: &'a RawValue,
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

#[derive(Debug)]
pub struct Request<'a> {
    pub id: &'a RawValue,
    pub method: Cow<'a, str>,
    pub params: Params<'a>,
}

#[derive(Debug)]
pub struct Notification<'a> {
    pub method: Cow<'a, str>,
    pub params: Params<'a>,
}

/// The parameters of all methods, unparsed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    pub meta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub cursor: Option<&'a RawValue>,
    #[serde(borrow)]
    pub uri: Option<&'a RawValue>,
    #[serde(borrow)]
    pub protocol_version: Option<&'a RawValue>,
    #[serde(borrow)]
    pub client_info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub notifications: Option<&'a RawValue>,
    #[serde(borrow)]
    pub request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    pub input_responses: Option<&'a RawValue>,
    #[serde(borrow)]
    pub request_state: Option<&'a RawValue>,
    #[serde(borrow)]
    pub task_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub level: Option<&'a RawValue>,
    #[serde(borrow, rename = "ref")]
    pub reference: Option<&'a RawValue>,
    #[serde(borrow)]
    pub argument: Option<&'a RawValue>,
    #[serde(borrow)]
    pub context: Option<&'a RawValue>,
}

/// A parameter as a string; none if it is absent or not a string.
pub fn text(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    /// Null is distinguished from absent.
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Parses one message.
pub fn parse(body: &[u8]) -> Result<Message<'_>, RpcError> {
    let raw: &RawValue = serde_json::from_slice(body).map_err(|e| {
        RpcError::new(StatusCode::BAD_REQUEST, PARSE_ERROR, format!("the body is not JSON: {e}"))
    })?;
    message(raw)
}

/// Splits a batch into messages. Each is validated separately.
pub fn parse_batch(body: &[u8]) -> Result<Vec<&RawValue>, RpcError> {
    serde_json::from_slice(body).map_err(|e| {
        RpcError::new(StatusCode::BAD_REQUEST, PARSE_ERROR, format!("the body is not JSON: {e}"))
    })
}

pub fn message(raw: &RawValue) -> Result<Message<'_>, RpcError> {
    if !raw.get().starts_with('{') {
        return Err(RpcError::invalid_request("a message is a JSON object"));
    }
    let envelope: Envelope<'_> = serde_json::from_str(raw.get())
        .map_err(|e| RpcError::invalid_request(format!("not a JSON-RPC message: {e}")))?;
    let id = envelope.id.map(check_id).transpose()?;
    let fail = |error: RpcError| match id {
        Some(id) => error.with_id(id),
        None => error,
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(fail(RpcError::invalid_request("the member jsonrpc must be \"2.0\"")));
    }
    let Some(method) = envelope.method else {
        let outcome = envelope.result.map(Ok).or(envelope.error.map(Err));
        return match (id, outcome) {
            (Some(id), Some(outcome)) => Ok(Message::Response { id, outcome }),
            _ => Err(fail(RpcError::invalid_request("the member method is missing"))),
        };
    };
    let params = match envelope.params {
        None => Params::default(),
        Some(params) if params.get().starts_with('{') => serde_json::from_str(params.get())
            .map_err(|e| fail(RpcError::invalid_request(format!("params cannot be read: {e}"))))?,
        Some(_) => {
            let message = "params must be an object";
            return Err(fail(RpcError::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, message)));
        }
    };
    Ok(match id {
        Some(id) => Message::Request(Request { id, method, params }),
        None => Message::Notification(Notification { method, params }),
    })
}

/// Checks that an id is a string or an integer, as MCP requires.
fn check_id(id: &RawValue) -> Result<&RawValue, RpcError> {
    let text = id.get();
    // A lone surrogate escape is valid JSON, but not every client can parse an answer that contains it.
    let is_text =
        text.starts_with('"') && (!text.contains('\\') || serde_json::from_str::<String>(text).is_ok());
    let ok = is_text || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    // Limited because an id is repeated in every answer.
    if ok && text.len() <= 1024 {
        Ok(id)
    } else {
        Err(RpcError::invalid_request("the id must be a string of at most 1024 bytes or an integer"))
    }
}

/// Refuses a body that nests deeper than `limit`, before it is parsed recursively.
pub fn check_depth(body: &[u8], limit: usize) -> Result<(), RpcError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > limit {
                    let message = format!("the body nests deeper than {limit} levels");
                    return Err(RpcError::invalid_request(message));
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}
