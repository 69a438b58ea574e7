//! The request headers that MCP and Plexus define.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use serde_json::{Number, Value};

use super::State;
use super::call::{Target, TargetKind};
use super::rpc::{HEADER_MISMATCH, INVALID_REQUEST, RpcError};
use crate::param_headers::{ParamHeader, param_headers};
use crate::version::Era;

pub(super) const SESSION_ID: &str = "mcp-session-id";
pub(super) const LAST_EVENT_ID: &str = "last-event-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const PLEXUS_SESSION: &str = "plexus-session";
const PLEXUS_FOLDER: &str = "plexus-folder";

/// Checks that the body is JSON and that the client accepts both JSON and event streams.
pub(crate) fn check_media_types(headers: &HeaderMap) -> Result<(), RpcError> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let content_type = types.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") || types.next().is_some() {
        let message = "the body must be sent as Content-Type: application/json";
        return Err(RpcError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, message));
    }
    if accepts(headers, "application/json") && accepts(headers, "text/event-stream") {
        return Ok(());
    }
    let message = "the client must send Accept: application/json, text/event-stream";
    Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, message))
}

/// Whether the client accepts this media type. Without an `Accept` header it accepts everything.
pub(super) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut present = false;
    for value in headers.get_all(ACCEPT) {
        present = true;
        for range in value.to_str().unwrap_or_default().split(',') {
            let range = range.split(';').next().unwrap_or_default().trim();
            let matches = match range.split_once('/') {
                Some(("*", "*")) => true,
                Some((kind, "*")) => {
                    media_type.split_once('/').is_some_and(|(w, _)| w.eq_ignore_ascii_case(kind))
                }
                _ => range.eq_ignore_ascii_case(media_type),
            };
            if matches {
                return true;
            }
        }
    }
    !present
}

/// The single value of a header. Several are refused, because intermediaries may read different ones.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("the header {name} occurs more than once")));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim())),
        Err(_) => Err(mismatch(format!("the header {name} contains invalid characters"))),
    }
}

pub(super) fn mismatch(message: impl Into<String>) -> RpcError {
    RpcError::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, message)
}

pub(crate) fn protocol_version(headers: &HeaderMap) -> Result<Option<Era>, RpcError> {
    Ok(single(headers, PROTOCOL_VERSION)?.map(Era::parse))
}

pub(super) fn session_id(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    single(headers, SESSION_ID).map_err(|error| RpcError::invalid_request(error.message))
}

/// The conversation id from a configured header. An empty value counts as absent: an unset variable expands to it.
pub(super) fn session(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    let id = single(headers, PLEXUS_SESSION).map_err(|error| RpcError::invalid_request(error.message))?;
    Ok(id.filter(|id| !id.is_empty()))
}

/// The client's working folder, sent by its proxy.
pub(super) fn folder(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, RpcError> {
    single(headers, PLEXUS_FOLDER)?.map(|folder| decode(PLEXUS_FOLDER, folder)).transpose()
}

/// The parts of a body that the stateless revision repeats in headers.
pub(super) struct Routing<'a> {
    pub(super) version: &'a str,
    pub(super) method: &'a str,
    /// The name of what the method acts on.
    pub(super) name: Option<Cow<'a, str>>,
}

/// Checks that the headers match the body.
pub(super) fn check_routing(headers: &HeaderMap, body: &Routing<'_>) -> Result<(), RpcError> {
    compare(PROTOCOL_VERSION, single(headers, PROTOCOL_VERSION)?, body.version)?;
    compare(METHOD, single(headers, METHOD)?, body.method)?;
    let name = single(headers, NAME)?;
    if let Some(expected) = &body.name {
        let decoded = name.map(|name| decode(NAME, name)).transpose()?;
        compare(NAME, decoded.as_deref(), expected)?;
    }
    Ok(())
}

/// Checks that marked arguments are repeated in headers with the same value, because intermediaries may have routed
/// or admitted the request by a header.
///
/// Nothing is compared for `tool_call`, whose schema has no marks.
pub(super) fn check_params(
    headers: &HeaderMap,
    target: &Target,
    principal: &Principal,
    state: &State,
) -> Result<(), RpcError> {
    if target.kind != TargetKind::Tool {
        return Ok(());
    }
    let visible = state.dispatcher.registry().visible_to(principal);
    // The dispatcher refuses a missing tool.
    let Ok(tool) = visible.resolve(&target.name) else { return Ok(()) };
    let spec = tool.spec();
    if !spec.upstream().is_some_and(|upstream| upstream.repeats_arguments) {
        return Ok(());
    }
    let marks = param_headers(&spec.input_schema).unwrap_or_default();
    marks.iter().try_for_each(|mark| check_param(headers, mark, &target.arguments))
}

fn check_param(headers: &HeaderMap, mark: &ParamHeader, arguments: &Value) -> Result<(), RpcError> {
    let header = mark.header.as_str();
    let sent = single(headers, header)?.map(|value| decode(header, value)).transpose()?;
    match (sent, mark.value(arguments)) {
        (None, None) => Ok(()),
        (Some(sent), None) => {
            let sent = truncated(&sent);
            Err(mismatch(format!("the header {header} is {sent:?}, but the argument is missing")))
        }
        // Numbers are compared by value: 1 and 1.0 are equal.
        (Some(sent), Some(Value::Number(number))) if is_number(&sent, number) => Ok(()),
        (sent, Some(_)) => {
            compare(header, sent.as_deref(), mark.text(arguments).unwrap_or_default().as_str())
        }
    }
}

fn is_number(text: &str, number: &Number) -> bool {
    match (text.parse::<i64>(), number.as_i64()) {
        (Ok(sent), Some(expected)) => sent == expected,
        _ => text.parse::<f64>().is_ok_and(|sent| number.as_f64() == Some(sent)),
    }
}

fn compare(header: &str, got: Option<&str>, expected: &str) -> Result<(), RpcError> {
    match got {
        Some(got) if got == expected => Ok(()),
        Some(got) => {
            let (got, expected) = (truncated(got), truncated(expected));
            Err(mismatch(format!("the header {header} is {got:?}, but the body has {expected:?}")))
        }
        None => Err(mismatch(format!("the header {header} is missing"))),
    }
}

fn truncated(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Decodes `=?base64?…?=`, the form of a text that a header cannot contain.
fn decode<'v>(header: &str, value: &'v str) -> Result<Cow<'v, str>, RpcError> {
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(Cow::Borrowed(value));
    };
    STANDARD
        .decode(encoded)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(Cow::Owned)
        .ok_or_else(|| mismatch(format!("the header {header} is not valid Base64 of UTF-8")))
}
