//! Incoming messages, parsed as far as routing requires.

use std::borrow::Cow;

use plexus_tools::{LogLevel, LogLine, Progress, RawJson};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::stderr::cut;
use super::super::{ClientError, ServerChange};
use super::RequestId;

/// Limit in bytes of texts besides results that are passed on to people and models.
const MAX_TEXT: usize = 2 << 10;
/// Limit of the data of an error; longer data is dropped entirely, because a part of it is useless.
const MAX_DATA: usize = 8 << 10;
/// Limit of a URI; longer ones cannot be subscribed to.
const MAX_URI: usize = 8 << 10;
/// Limit of a log line; longer ones are dropped.
const MAX_LOG_LINE: usize = 16 << 10;

/// An incoming message, parsed as far as routing requires.
#[derive(Debug)]
pub(in crate::client) enum Incoming<'a> {
    Response {
        /// None if the id was not assigned by the hub or is missing, for example because the server could not
        /// parse the request.
        id: Option<RequestId>,
        /// The text of `result`.
        outcome: Result<&'a RawValue, ClientError>,
    },
    Request {
        id: &'a RawValue,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
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
    /// None: not a JSON-RPC message.
    fn parse(json: &'a [u8]) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_slice(json).ok()?;
        match envelope {
            Envelope { method: Some(method), id: Some(id), params, .. } => {
                Some(Self::Request { id, method, params })
            }
            Envelope { method: Some(method), params, .. } => Some(Self::Notification { method, params }),
            Envelope { id, error: Some(error), .. } => {
                Some(Self::Response { id: hub_request_id(id), outcome: Err(rpc_error(error)) })
            }
            Envelope { id, result: Some(result), .. } => {
                Some(Self::Response { id: hub_request_id(id), outcome: Ok(result) })
            }
            _ => None,
        }
    }

    /// The messages in one piece of input: one, or several in revisions with batches. None if any part of it
    /// is not a message.
    pub(in crate::client) fn all(json: &'a [u8]) -> Option<Messages<'a>> {
        if !json.trim_ascii_start().starts_with(b"[") {
            return Self::parse(json).map(Messages::One);
        }
        let batch: Vec<&'a RawValue> = serde_json::from_slice(json).ok()?;
        let parsed: Option<Vec<_>> =
            batch.into_iter().map(|part| Self::parse(part.get().as_bytes())).collect();
        parsed.filter(|batch| !batch.is_empty()).map(Messages::Batch)
    }
}

/// The messages in one piece of input; the common case needs no allocation.
#[derive(Debug)]
pub(in crate::client) enum Messages<'a> {
    One(Incoming<'a>),
    Batch(Vec<Incoming<'a>>),
}

impl<'a> Messages<'a> {
    pub(in crate::client) fn for_each(self, mut each: impl FnMut(Incoming<'a>)) {
        match self {
            Self::One(message) => each(message),
            Self::Batch(messages) => messages.into_iter().for_each(each),
        }
    }
}

/// An id that the hub may have assigned.
pub(in crate::client) fn hub_request_id(id: Option<&RawValue>) -> Option<RequestId> {
    id.and_then(|id| id.get().parse().ok())
}

pub(in crate::client) fn rpc_error(error: &RawValue) -> ClientError {
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

/// A progress notification and the request it belongs to. None if it belongs to no request of the hub.
pub(in crate::client) fn progress(params: Option<&RawValue>) -> Option<(RequestId, Progress)> {
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

/// The id in a cancellation by the server: of one of its own requests, or of the hub's subscription.
pub(in crate::client) fn cancelled_request(params: Option<&RawValue>) -> Option<&RawValue> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    serde_json::from_str::<Params<'_>>(params?.get()).ok().map(|params| params.request_id)
}

/// The change that a notification reports.
pub(in crate::client) fn server_change(method: &str, params: Option<&RawValue>) -> Option<ServerChange> {
    match method {
        "notifications/tools/list_changed" => Some(ServerChange::Tools),
        "notifications/resources/list_changed" => Some(ServerChange::Resources),
        "notifications/prompts/list_changed" => Some(ServerChange::Prompts),
        "notifications/resources/updated" => updated(params).map(ServerChange::Updated),
        _ => None,
    }
}

/// The subscription that a notification belongs to.
pub(in crate::client) fn subscription(params: Option<&RawValue>) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        id: RequestId,
    }
    serde_json::from_str::<Params>(params?.get()).ok().map(|params| params.meta.id)
}

fn updated(params: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let Params { uri } = serde_json::from_str(params?.get()).ok()?;
    (uri.len() <= MAX_URI).then_some(uri)
}

/// A line of the server's log. None if it is malformed or too long.
pub(in crate::client) fn log_line(params: Option<&RawValue>) -> Option<LogLine> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        level: Cow<'a, str>,
    }
    let params = params.filter(|params| params.get().len() <= MAX_LOG_LINE)?;
    let Params { level } = serde_json::from_str(params.get()).ok()?;
    Some(LogLine { level: LogLevel::parse(&level)?, params: RawJson::of(params) })
}
