//! Request headers that MCP gives a meaning to.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use serde_json::{Number, Value};

use super::State;
use super::call::{Subject, Target};
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

/// A body that is JSON, and a client that takes both forms of an answer.
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

/// Whether the client takes this media type; one that does not say takes anything.
pub(super) fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut said = false;
    for value in headers.get_all(ACCEPT) {
        said = true;
        for range in value.to_str().unwrap_or_default().split(',') {
            let range = range.split(';').next().unwrap_or_default().trim();
            let matches = match range.split_once('/') {
                Some(("*", "*")) => true,
                Some((kind, "*")) => {
                    wanted.split_once('/').is_some_and(|(w, _)| w.eq_ignore_ascii_case(kind))
                }
                _ => range.eq_ignore_ascii_case(wanted),
            };
            if matches {
                return true;
            }
        }
    }
    !said
}

/// The one value of a header. Two are one too many: parts of the path may read different ones.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("the header {name} is there more than once")));
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

/// The name of the conversation, given by whoever configured the client. Empty is as good as absent: that
/// is what a variable expands to which nobody has set.
pub(super) fn session(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    let given = single(headers, PLEXUS_SESSION).map_err(|error| RpcError::invalid_request(error.message))?;
    Ok(given.filter(|name| !name.is_empty()))
}

/// The folder in which the client works, as its proxy tells it.
pub(super) fn folder(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, RpcError> {
    single(headers, PLEXUS_FOLDER)?.map(|folder| decode(PLEXUS_FOLDER, folder)).transpose()
}

/// What the stateless revision wants to see repeated in the headers.
pub(super) struct Routing<'a> {
    pub(super) version: &'a str,
    pub(super) method: &'a str,
    /// For methods that act on something with a name.
    pub(super) name: Option<Cow<'a, str>>,
}

/// Headers and body must say the same.
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

/// Arguments that a tool wants to see repeated in headers must be there, and say the same: whoever routed the request by
/// a header, or let it pass, believed that one.
///
/// Through `tool_call` nothing is compared: its own schema marks nothing.
pub(super) fn check_params(
    headers: &HeaderMap,
    target: &Target,
    principal: &Principal,
    state: &State,
) -> Result<(), RpcError> {
    if target.subject != Subject::Tool {
        return Ok(());
    }
    let visible = state.dispatcher.registry().visible_to(principal);
    // One that is not there is the dispatcher's to refuse.
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
    let said = single(headers, header)?.map(|value| decode(header, value)).transpose()?;
    match (said, mark.value(arguments)) {
        (None, None) => Ok(()),
        (Some(said), None) => {
            let said = shown(&said);
            Err(mismatch(format!("the header {header} says {said:?} and the arguments say nothing of it")))
        }
        // Written differently is not different: 1 and 1.0 are one number.
        (Some(said), Some(Value::Number(number))) if is_number(&said, number) => Ok(()),
        (said, Some(_)) => {
            compare(header, said.as_deref(), mark.text(arguments).unwrap_or_default().as_str())
        }
    }
}

fn is_number(text: &str, number: &Number) -> bool {
    match (text.parse::<i64>(), number.as_i64()) {
        (Ok(said), Some(meant)) => said == meant,
        _ => text.parse::<f64>().is_ok_and(|said| number.as_f64() == Some(said)),
    }
}

fn compare(header: &str, got: Option<&str>, expected: &str) -> Result<(), RpcError> {
    match got {
        Some(got) if got == expected => Ok(()),
        Some(got) => {
            let (got, expected) = (shown(got), shown(expected));
            Err(mismatch(format!("the header {header} says {got:?} and the body {expected:?}")))
        }
        None => Err(mismatch(format!("the header {header} is missing"))),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

/// `=?base64?…?=` stands for text that a header cannot carry.
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
