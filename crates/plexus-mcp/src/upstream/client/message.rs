//! The messages of MCP as a client sends and receives them: bytes out, borrowed parts in.
//!
//! Every transport builds and reads its messages here. What is sent is one JSON text without a line break in it;
//! what comes in is taken apart only as far as it is needed to know whom it is for, and [`answer`](super::answer)
//! reads the results. The hub announces no capability of a client, since it has none yet.

use std::borrow::Cow;

use plexus_kit::TraceContext;
use plexus_proto::api::UpstreamEra;
use plexus_tools::Progress;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::stderr::cut;
use super::{ClientError, Outgoing};
use crate::server::{MODERN, Version};

/// Whoever is asked does not do that.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// Of what a server says to a person or a model beside its results, bytes that are passed on.
const MAX_TEXT: usize = 2 << 10;
/// Of the data of an error, which is left out whole where it is longer: half of it is no data.
const MAX_DATA: usize = 8 << 10;
/// A small request fits without the buffer growing; a line break may follow.
const ROOM: usize = 512;

/// Of a request of ours: unique on its connection, and its progress token too.
pub(super) type RequestId = u64;

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: RequestId,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Notification<'a, P> {
    jsonrpc: &'static str,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

#[derive(Serialize)]
struct Implementation {
    name: &'static str,
    version: &'static str,
}

const CLIENT: Implementation = Implementation { name: "plexus", version: env!("CARGO_PKG_VERSION") };

#[derive(Serialize)]
struct Nothing {}

/// `_meta` of a request: in the stateless era it says who asks and in which revision, each time.
#[derive(Serialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", skip_serializing_if = "Option::is_none")]
    client: Option<Implementation>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", skip_serializing_if = "Option::is_none")]
    capabilities: Option<Nothing>,
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    progress_token: Option<RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
}

impl<'a> Meta<'a> {
    /// None where nothing has to be said.
    fn of(era: UpstreamEra, token: Option<RequestId>, trace: Option<&'a TraceContext>) -> Option<Self> {
        let stateless = era == UpstreamEra::Stateless;
        (stateless || token.is_some() || trace.is_some()).then(|| Self {
            revision: stateless.then_some(MODERN),
            client: stateless.then_some(CLIENT),
            capabilities: stateless.then_some(Nothing {}),
            progress_token: token,
            traceparent: trace.map(TraceContext::traceparent),
            tracestate: trace.and_then(TraceContext::tracestate),
        })
    }
}

/// Begins a session; an older revision may be answered.
pub(super) fn initialize(id: RequestId) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: &'static str,
        capabilities: Nothing,
        client_info: Implementation,
    }
    let revision = Version::LATEST.as_str();
    request(
        id,
        "initialize",
        Params { protocol_version: revision, capabilities: Nothing {}, client_info: CLIENT },
    )
}

/// Ends the handshake of a session.
pub(super) fn initialized() -> Vec<u8> {
    notification("notifications/initialized", None::<Nothing>)
}

/// Asks a server of the stateless era who it is, and any other whether it is one.
pub(super) fn discover(id: RequestId) -> Vec<u8> {
    request(id, "server/discover", OnlyMeta { meta: Meta::of(UpstreamEra::Stateless, None, None) })
}

#[derive(Serialize)]
struct OnlyMeta<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta<'a>>,
}

pub(super) fn list_tools(id: RequestId, era: UpstreamEra, cursor: Option<&str>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<&'a str>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<Meta<'a>>,
    }
    request(id, "tools/list", Params { cursor, meta: Meta::of(era, None, None) })
}

/// A call; its id is the token of its progress, if the caller wants any.
pub(super) fn call(id: RequestId, era: UpstreamEra, call: &Outgoing) -> Vec<u8> {
    #[derive(Serialize)]
    struct Params<'a> {
        name: &'a str,
        arguments: &'a Value,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<Meta<'a>>,
    }
    let token = call.progress.is_some().then_some(id);
    let meta = Meta::of(era, token, call.trace.as_ref());
    request(id, "tools/call", Params { name: &call.tool, arguments: &call.arguments, meta })
}

/// Only the session era has it.
pub(super) fn ping(id: RequestId) -> Vec<u8> {
    request(id, "ping", Nothing {})
}

/// Asks a server of the stateless era to say when its tools change. It is answered when the server stops doing so.
pub(super) fn listen(id: RequestId) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wanted {
        tools_list_changed: bool,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        notifications: Wanted,
        #[serde(rename = "_meta")]
        meta: Option<Meta<'a>>,
    }
    let meta = Meta::of(UpstreamEra::Stateless, None, None);
    request(id, "subscriptions/listen", Params { notifications: Wanted { tools_list_changed: true }, meta })
}

/// The answer to a request of ours is no longer wanted.
pub(super) fn cancelled(id: RequestId, reason: &str) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: RequestId,
        reason: &'a str,
    }
    notification("notifications/cancelled", Some(Params { request_id: id, reason }))
}

/// What a server is answered that asks the hub for something: it is there, and it does nothing else.
pub(super) fn answer(id: &RawValue, method: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Nothing>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Refusal>,
    }
    #[derive(Serialize)]
    struct Refusal {
        code: i64,
        message: String,
    }
    let (result, error) = match method {
        "ping" => (Some(Nothing {}), None),
        _ => {
            let message = format!("`{method}` is not passed on: this client announced no such capability");
            (None, Some(Refusal { code: METHOD_NOT_FOUND, message }))
        }
    };
    bytes(&Answer { jsonrpc: "2.0", id, result, error })
}

fn request(id: RequestId, method: &str, params: impl Serialize) -> Vec<u8> {
    bytes(&Request { jsonrpc: "2.0", id, method, params })
}

fn notification(method: &str, params: Option<impl Serialize>) -> Vec<u8> {
    bytes(&Notification { jsonrpc: "2.0", method, params })
}

fn bytes(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ROOM);
    match serde_json::to_writer(&mut bytes, message) {
        Ok(()) => bytes,
        Err(_) => unreachable!("memory can be written to, and all keys are strings"),
    }
}

/// A message from a server, as far as it is needed to know whom it is for.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Response {
        /// None: not an id of ours, or none at all, as of a server that could not read what we sent.
        id: Option<RequestId>,
        /// The text of `result`.
        outcome: Result<&'a RawValue, ClientError>,
    },
    Request {
        id: &'a RawValue,
        method: Cow<'a, str>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl<'a> Incoming<'a> {
    /// None: this is no message of JSON-RPC.
    fn parse(json: &'a [u8]) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_slice(json).ok()?;
        match envelope {
            Envelope { method: Some(method), id: Some(id), .. } => Some(Self::Request { id, method }),
            Envelope { method: Some(method), params, .. } => Some(Self::Notification { method, params }),
            Envelope { id, error: Some(error), .. } => {
                Some(Self::Response { id: own(id), outcome: Err(rpc_error(error)) })
            }
            Envelope { id, result: Some(result), .. } => {
                Some(Self::Response { id: own(id), outcome: Ok(result) })
            }
            _ => None,
        }
    }

    /// The messages in what came in one piece: one, or several where the revision has batches. None when it is none,
    /// or when not all of it is.
    pub(super) fn all(json: &'a [u8]) -> Option<Messages<'a>> {
        if !json.trim_ascii_start().starts_with(b"[") {
            return Self::parse(json).map(Messages::One);
        }
        let batch: Vec<&'a RawValue> = serde_json::from_slice(json).ok()?;
        let parsed: Option<Vec<_>> =
            batch.into_iter().map(|part| Self::parse(part.get().as_bytes())).collect();
        parsed.filter(|batch| !batch.is_empty()).map(Messages::Batch)
    }
}

/// What came in one piece; the common case costs no list.
#[derive(Debug)]
pub(super) enum Messages<'a> {
    One(Incoming<'a>),
    Batch(Vec<Incoming<'a>>),
}

impl<'a> Messages<'a> {
    pub(super) fn for_each(self, mut each: impl FnMut(Incoming<'a>)) {
        match self {
            Self::One(message) => each(message),
            Self::Batch(messages) => messages.into_iter().for_each(each),
        }
    }
}

fn own(id: Option<&RawValue>) -> Option<RequestId> {
    id.and_then(|id| id.get().parse().ok())
}

fn rpc_error(error: &RawValue) -> ClientError {
    #[derive(Deserialize)]
    struct Parts<'a> {
        code: i64,
        #[serde(borrow, default)]
        message: Cow<'a, str>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    match serde_json::from_str(error.get()) {
        Ok(Parts { code, message, data }) => {
            let data = data.filter(|data| data.get().len() <= MAX_DATA);
            let data = data.and_then(|data| serde_json::from_str(data.get()).ok());
            ClientError::Rpc { code, message: cut(&message, MAX_TEXT), data }
        }
        Err(_) => ClientError::Protocol("the server sent an error that is not one of JSON-RPC".to_owned()),
    }
}

/// Progress and the request it is of. None: not for a request of ours.
pub(super) fn progress(params: Option<&RawValue>) -> Option<(RequestId, Progress)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        progress_token: RequestId,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }
    let Params { progress_token, progress, total, message } = serde_json::from_str(params?.get()).ok()?;
    let message = message.map(|message| cut(&message, MAX_TEXT));
    Some((progress_token, Progress { done: progress, total, message }))
}

/// The request that a server says it is done with: only ever one to [`listen`].
pub(super) fn cancelled_request(params: Option<&RawValue>) -> Option<RequestId> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        request_id: RequestId,
    }
    serde_json::from_str::<Params>(params?.get()).ok().map(|params| params.request_id)
}

#[cfg(test)]
mod tests;
