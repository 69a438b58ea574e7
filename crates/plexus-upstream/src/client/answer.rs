//! Parses the results of a server. Each function takes the text of a `result`, as a slice of its message.

mod input_required;
mod listing;
mod task;

use std::borrow::Cow;

use bytes::Bytes;
use plexus_mcp::version::{MODERN, SUPPORTED, Version};
use plexus_proto::api::UpstreamEra;
use plexus_tools::{ForeignOutput, RawJson};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(super) use listing::fetch_list;
pub(crate) use task::{TaskState, task_state};

use super::stderr::cut;
use super::{CallResponse, CallResult, ClientError, Offers, Peer, RequestResponse};

/// Errors that only a server of the stateless era returns.
pub(super) const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_REVISION: i64 = -32022;

/// Limits in bytes of a server's description of itself. It is shown to people, and the instructions to
/// models.
const MAX_NAME: usize = 200;
const MAX_VERSION: usize = 100;
const MAX_INSTRUCTIONS: usize = 16 << 10;
/// Bytes of an invalid text that an error repeats.
const MAX_REPEATED: usize = 300;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The result of a call. Its parts remain slices of the received text; nothing is copied or serialized again.
pub(crate) fn parse_call_result(result: &Bytes) -> CallResult {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts<'a> {
        #[serde(borrow)]
        result_type: Option<Cow<'a, str>>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        // In the stateless era null is a value too. Servers of the session era write it for a missing value,
        // which does no harm.
        #[serde(borrow)]
        structured_content: Option<&'a RawValue>,
        is_error: Option<bool>,
        // Present if the call became a task within a session.
        #[serde(borrow)]
        task: Option<&'a RawValue>,
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    let parts: Parts<'_> = parsed(result, "tools/call")?;
    match kind(parts.result_type.as_deref())? {
        Kind::Complete => {}
        Kind::InputRequired => {
            let (questions, state) = input_required::questions(result, "tools/call")?;
            return Ok(CallResponse::Ask { questions, state });
        }
        Kind::Task => return task::task_created(result),
    }
    let content = match parts.content {
        Some(content) if content.get().starts_with('[') => RawJson::within(result, content),
        Some(_) => return Err(malformed("tools/call", &"`content` is not an array")),
        // Required by the specification, but structured data alone is sufficient.
        None if parts.structured_content.is_some() => RawJson::empty_array(),
        None if parts.task.is_some() => return task::task_created_in_session(result),
        None => return Err(malformed("tools/call", &"it has no `content`")),
    };
    Ok(CallResponse::Output(ForeignOutput {
        content,
        structured: parts.structured_content.map(|data| RawJson::within(result, data)),
        is_error: parts.is_error.unwrap_or(false),
        meta: parts.meta.filter(|meta| meta.get().starts_with('{')).map(|meta| RawJson::within(result, meta)),
        lacking: None,
    }))
}

/// The result of any other request.
pub(super) fn parse_response(result: Bytes, method: &str) -> Result<RequestResponse, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts<'a> {
        #[serde(borrow)]
        result_type: Option<Cow<'a, str>>,
    }
    let Parts { result_type } = parsed(&result, method)?;
    match kind(result_type.as_deref())? {
        Kind::Complete => Ok(RequestResponse::Result(result)),
        Kind::InputRequired => {
            let (questions, state) = input_required::questions(&result, method)?;
            Ok(RequestResponse::Ask { questions, state })
        }
        Kind::Task => Err(malformed(method, &"only a tool call may become a task")),
    }
}

/// The type of a result.
enum Kind {
    /// The complete answer.
    Complete,
    InputRequired,
    Task,
}

fn kind(result_type: Option<&str>) -> Result<Kind, ClientError> {
    match result_type {
        None | Some("complete") => Ok(Kind::Complete),
        Some("input_required") => Ok(Kind::InputRequired),
        Some("task") => Ok(Kind::Task),
        Some(other) => {
            let other = cut(other, MAX_REPEATED);
            Err(ClientError::Protocol(format!("the result has the unknown type `{other}`")))
        }
    }
}

/// Parses the answer to `initialize`: the server's description and the revision it chose.
pub(super) fn initialized(result: &Bytes) -> Result<Peer, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts {
        protocol_version: String,
        #[serde(default)]
        capabilities: Capabilities,
        #[serde(default)]
        server_info: Implementation,
        instructions: Option<String>,
    }
    let parts: Parts = parsed(result, "initialize")?;
    if Version::parse(&parts.protocol_version).is_none() {
        return Err(no_common_revision(&[parts.protocol_version]));
    }
    let Parts { protocol_version, capabilities, server_info, instructions } = parts;
    Ok(peer(UpstreamEra::Session, protocol_version, server_info, instructions, &capabilities))
}

/// Parses the answer to `server/discover`. An error if the server does not support the hub's stateless
/// revision.
pub(super) fn discovered(result: &Bytes) -> Result<Peer, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts {
        supported_versions: Vec<String>,
        #[serde(default)]
        capabilities: Capabilities,
        instructions: Option<String>,
        #[serde(default, rename = "_meta")]
        meta: Map<String, Value>,
    }
    let mut parts: Parts = parsed(result, "server/discover")?;
    if !parts.supported_versions.iter().any(|revision| revision == MODERN) {
        return Err(no_common_revision(&parts.supported_versions));
    }
    let server = parts.meta.remove(SERVER_INFO).map(serde_json::from_value::<Implementation>);
    let server = server.and_then(Result::ok).unwrap_or_default();
    let Parts { instructions, capabilities, .. } = parts;
    Ok(peer(UpstreamEra::Stateless, MODERN.to_owned(), server, instructions, &capabilities))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Implementation {
    name: String,
    version: String,
}

/// The capabilities that the hub uses; others are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Capabilities {
    tools: Option<Value>,
    prompts: Option<Value>,
    resources: Option<Value>,
    completions: Option<Value>,
    logging: Option<Value>,
    extensions: Option<Value>,
}

impl Capabilities {
    fn offers(&self) -> Offers {
        let announces = |of: &Option<Value>, member: &str| {
            of.as_ref().and_then(|of| of.get(member)) == Some(&Value::Bool(true))
        };
        let tasks = self.extensions.as_ref().and_then(|extensions| extensions.get(TASKS));
        Offers {
            tools: self.tools.is_some(),
            tools_change: announces(&self.tools, "listChanged"),
            prompts: self.prompts.is_some(),
            prompts_change: announces(&self.prompts, "listChanged"),
            resources: self.resources.is_some(),
            resources_change: announces(&self.resources, "listChanged"),
            subscribe: announces(&self.resources, "subscribe"),
            completions: self.completions.is_some(),
            logging: self.logging.is_some(),
            tasks: tasks.is_some_and(Value::is_object),
        }
    }
}

fn peer(
    era: UpstreamEra,
    revision: String,
    server: Implementation,
    instructions: Option<String>,
    capabilities: &Capabilities,
) -> Peer {
    Peer {
        era,
        revision,
        name: cut(&server.name, MAX_NAME),
        version: cut(&server.version, MAX_VERSION),
        instructions: instructions.map(|instructions| cut(&instructions, MAX_INSTRUCTIONS)),
        offers: capabilities.offers(),
    }
}

/// The conclusion from a failed `server/discover`.
#[derive(Debug, PartialEq)]
pub(super) enum DiscoverFailure {
    /// The server may be of the session era: `initialize` is worth trying.
    TryInitialize,
    /// The server is of the stateless era, but there is no common revision.
    Refused(ClientError),
}

/// The specification defines no error code for falling back to `initialize`, so every error does that lead to
/// it except those that only a server of the stateless era returns.
pub(super) fn classify_discover_failure(error: ClientError) -> DiscoverFailure {
    let ClientError::Rpc { code, data, .. } = &error else { return DiscoverFailure::TryInitialize };
    match *code {
        UNSUPPORTED_REVISION => {
            let supported = data.as_ref().and_then(|data| data.get("supported")).and_then(Value::as_array);
            let supported: Vec<String> =
                supported.into_iter().flatten().filter_map(|r| r.as_str().map(str::to_owned)).collect();
            if supported.iter().any(|revision| Version::parse(revision).is_some()) {
                return DiscoverFailure::TryInitialize;
            }
            DiscoverFailure::Refused(no_common_revision(&supported))
        }
        HEADER_MISMATCH | MISSING_CAPABILITY => DiscoverFailure::Refused(error),
        _ => DiscoverFailure::TryInitialize,
    }
}

fn no_common_revision(offered: &[String]) -> ClientError {
    let (offered, supported) = (cut(&offered.join(", "), MAX_REPEATED), SUPPORTED.join(", "));
    ClientError::Protocol(format!("the server supports MCP {offered}, but the hub supports {supported}"))
}

fn parsed<'a, T: Deserialize<'a>>(result: &'a Bytes, method: &str) -> Result<T, ClientError> {
    serde_json::from_slice(result).map_err(|error| malformed(method, &error))
}

fn malformed(method: &str, why: &dyn std::fmt::Display) -> ClientError {
    let why = cut(&why.to_string(), MAX_REPEATED);
    ClientError::Protocol(format!("the server's result of {method} is invalid: {why}"))
}

#[cfg(test)]
mod tests;
