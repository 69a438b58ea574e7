//! Outgoing messages: requests, notifications, and answers to questions of a server.

use std::collections::BTreeSet;

use plexus_kit::TraceContext;
use plexus_mcp::version::{MODERN, Version};
use plexus_proto::api::UpstreamEra;
use plexus_tools::{Answer, Capabilities, LogLevel, RawJson};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::{Bridge, Inputs, Offers, Outgoing, Request as ClientRequest};
use super::RequestId;

/// How long a session keeps the task of a call, in milliseconds: longer than any call may take.
const TASK_TTL: u64 = 25 * 60 * 60 * 1000;
/// Initial capacity of the buffer: fits a small request with a line break.
const INITIAL_CAPACITY: usize = 512;

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

const CLIENT_INFO: Implementation = Implementation { name: "plexus", version: env!("CARGO_PKG_VERSION") };

#[derive(Serialize)]
struct Nothing {}

fn object_if(holds: bool) -> Option<Nothing> {
    holds.then_some(Nothing {})
}

/// The capabilities of the client behind a request, as declared to the server.
#[derive(Serialize)]
struct Declared {
    #[serde(skip_serializing_if = "Option::is_none")]
    roots: Option<Nothing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Sampling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elicitation: Option<Elicitation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Extensions>,
}

#[derive(Serialize)]
struct Sampling {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Nothing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Nothing>,
}

#[derive(Serialize)]
struct Elicitation {
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<Nothing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<Nothing>,
}

#[derive(Serialize)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks")]
    tasks: Nothing,
}

impl Declared {
    fn of(can: Capabilities) -> Self {
        Self {
            roots: object_if(can.roots),
            sampling: can.sampling.then(|| Sampling {
                tools: object_if(can.sampling_tools),
                context: object_if(can.sampling_context),
            }),
            elicitation: (can.form || can.url)
                .then(|| Elicitation { form: object_if(can.form), url: object_if(can.url) }),
            extensions: can.tasks.then_some(Extensions { tasks: Nothing {} }),
        }
    }
}

/// The metadata of a request, in the form of its server's era.
#[derive(Debug, Clone, Copy)]
pub(in crate::client) struct RequestMeta<'a> {
    pub(in crate::client) era: UpstreamEra,
    /// Only sent in the stateless era; a session declares them once.
    pub(in crate::client) capabilities: Capabilities,
    /// Only sent in the stateless era.
    pub(in crate::client) log: Option<LogLevel>,
    pub(in crate::client) trace: Option<&'a TraceContext>,
}

impl RequestMeta<'_> {
    /// For the hub's own requests.
    pub(in crate::client) fn for_hub(era: UpstreamEra) -> Self {
        Self { era, capabilities: Capabilities::default(), log: None, trace: None }
    }

    /// For a request of a caller. The hub follows tasks itself, so the client's support for them is
    /// irrelevant.
    pub(in crate::client) fn of(era: UpstreamEra, bridge: &Bridge, follows: bool) -> Self {
        let capabilities = Capabilities { tasks: follows, ..bridge.capabilities };
        Self { era, capabilities, log: bridge.log.as_ref().map(|log| log.least), trace: None }
    }
}

/// `_meta` of a request: in the stateless era each request identifies the client and the revision.
#[derive(Serialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", skip_serializing_if = "Option::is_none")]
    client: Option<Implementation>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", skip_serializing_if = "Option::is_none")]
    capabilities: Option<Declared>,
    #[serde(rename = "io.modelcontextprotocol/logLevel", skip_serializing_if = "Option::is_none")]
    log_level: Option<&'static str>,
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    progress_token: Option<RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
}

impl<'a> Meta<'a> {
    /// None if there is nothing to send.
    fn of(request_meta: RequestMeta<'a>, token: Option<RequestId>) -> Option<Self> {
        let (stateless, trace) = (request_meta.era == UpstreamEra::Stateless, request_meta.trace);
        (stateless || token.is_some() || trace.is_some()).then(|| Self {
            revision: stateless.then_some(MODERN),
            client: stateless.then_some(CLIENT_INFO),
            capabilities: stateless.then(|| Declared::of(request_meta.capabilities)),
            log_level: request_meta.log.filter(|_| stateless).map(LogLevel::as_str),
            progress_token: token,
            traceparent: trace.map(TraceContext::traceparent),
            tracestate: trace.and_then(TraceContext::tracestate),
        })
    }
}

/// Starts a session with these capabilities; the server may choose an older revision.
pub(in crate::client) fn initialize(id: RequestId, can: Capabilities) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: &'static str,
        capabilities: Declared,
        client_info: Implementation,
    }
    let (protocol_version, capabilities) = (Version::LATEST.as_str(), Declared::of(can));
    send(id, "initialize", Params { protocol_version, capabilities, client_info: CLIENT_INFO })
}

/// Ends the handshake of a session.
pub(in crate::client) fn initialized() -> Vec<u8> {
    notification("notifications/initialized", None::<Nothing>)
}

/// Requests the description of a server of the stateless era, and detects other servers.
pub(in crate::client) fn discover(id: RequestId) -> Vec<u8> {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "_meta")]
        meta: Option<Meta<'a>>,
    }
    send(id, "server/discover", Params { meta: Meta::of(RequestMeta::for_hub(UpstreamEra::Stateless), None) })
}

/// Requests one page of a list.
pub(in crate::client) fn list(
    id: RequestId,
    era: UpstreamEra,
    method: &str,
    cursor: Option<&str>,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<&'a str>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<Meta<'a>>,
    }
    send(id, method, Params { cursor, meta: Meta::of(RequestMeta::for_hub(era), None) })
}

/// The answers that a server requested before it continues, with its state.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProvidedInputs<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_responses: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<&'a str>,
}

impl<'a> ProvidedInputs<'a> {
    fn of(inputs: &'a Inputs) -> Self {
        Self {
            input_responses: inputs.responses.as_ref().and_then(raw),
            request_state: inputs.state.as_deref(),
        }
    }
}

/// Text that was validated as JSON and is written unchanged.
fn raw(json: &RawJson) -> Option<&RawValue> {
    json.parsed().ok()
}

/// Requests that a call becomes a task.
#[derive(Serialize)]
struct AsTask {
    ttl: u64,
}

/// A tool call; its id is also the progress token if the caller wants progress.
pub(in crate::client) fn call(id: RequestId, call: &Outgoing, request_meta: RequestMeta<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Params<'a> {
        name: &'a str,
        arguments: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<AsTask>,
        #[serde(flatten)]
        provided: Option<ProvidedInputs<'a>>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<Meta<'a>>,
    }
    let task = (call.as_task && request_meta.era == UpstreamEra::Session).then_some(AsTask { ttl: TASK_TTL });
    let meta = Meta::of(request_meta, call.progress.is_some().then_some(id));
    let provided = (!call.inputs.is_empty()).then(|| ProvidedInputs::of(&call.inputs));
    send(id, "tools/call", Params { name: &call.tool, arguments: &call.arguments, task, provided, meta })
}

/// Any other request.
pub(in crate::client) fn request(
    id: RequestId,
    request: &ClientRequest,
    request_meta: RequestMeta<'_>,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(flatten)]
        params: &'a serde_json::Map<String, Value>,
        #[serde(flatten)]
        provided: ProvidedInputs<'a>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<Meta<'a>>,
    }
    let meta = Meta::of(request_meta, None);
    let params = Params { params: &request.params, provided: ProvidedInputs::of(&request.inputs), meta };
    send(id, request.method.name(), params)
}

/// A ping, which only the session era supports.
pub(in crate::client) fn ping(id: RequestId) -> Vec<u8> {
    send(id, "ping", Nothing {})
}

/// Subscribes at a server of the stateless era to changes of its lists and of these resources. The request is
/// answered when the subscription ends.
pub(in crate::client) fn listen(id: RequestId, offers: &Offers, watched: &BTreeSet<String>) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Filter<'a> {
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        tools_list_changed: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        prompts_list_changed: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        resources_list_changed: bool,
        #[serde(skip_serializing_if = "BTreeSet::is_empty")]
        resource_subscriptions: &'a BTreeSet<String>,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        notifications: Filter<'a>,
        #[serde(rename = "_meta")]
        meta: Option<Meta<'a>>,
    }
    let notifications = Filter {
        tools_list_changed: offers.tools_change,
        prompts_list_changed: offers.prompts_change,
        resources_list_changed: offers.resources_change,
        resource_subscriptions: watched,
    };
    let meta = Meta::of(RequestMeta::for_hub(UpstreamEra::Stateless), None);
    send(id, "subscriptions/listen", Params { notifications, meta })
}

/// Cancels a request of the hub.
pub(in crate::client) fn cancelled(id: RequestId, reason: &str) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: RequestId,
        reason: &'a str,
    }
    notification("notifications/cancelled", Some(Params { request_id: id, reason }))
}

/// The answer to a question of a server.
pub(in crate::client) fn answer(id: &RawValue, answer: &Answer) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Refusal<'a>>,
    }
    #[derive(Serialize)]
    struct Refusal<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Value>,
    }
    let (result, error) = match answer {
        Answer::Result(result) => (raw(result), None),
        Answer::Error { code, message, data } => {
            (None, Some(Refusal { code: *code, message, data: data.as_ref() }))
        }
    };
    bytes(&Response { jsonrpc: "2.0", id, result, error })
}

fn send(id: RequestId, method: &str, params: impl Serialize) -> Vec<u8> {
    bytes(&Request { jsonrpc: "2.0", id, method, params })
}

fn notification(method: &str, params: Option<impl Serialize>) -> Vec<u8> {
    bytes(&Notification { jsonrpc: "2.0", method, params })
}

/// Serializes a message without line breaks, because on a pipe a line break ends the message. Parts of it are
/// the client's original text; in valid JSON a line break can only occur where a blank can.
fn bytes(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(INITIAL_CAPACITY);
    match serde_json::to_writer(&mut bytes, message) {
        Ok(()) => {}
        Err(_) => unreachable!("memory can be written to, and all keys are strings"),
    }
    for byte in &mut bytes {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    bytes
}
