//! What comes in: taken apart as far as it is needed to know whom it is for.

use std::borrow::Cow;

use plexus_tools::{LogLevel, LogLine, Progress, RawJson};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::stderr::cut;
use super::super::{ClientError, News};
use super::RequestId;

/// Of what a server says to a person or a model beside its results, bytes that are passed on.
const MAX_TEXT: usize = 2 << 10;
/// Of the data of an error, which is left out whole where it is longer: half of it is no data.
const MAX_DATA: usize = 8 << 10;
/// Of an address; nobody subscribes to a longer one.
const MAX_URI: usize = 8 << 10;
/// Of a line of a log, which is dropped where it is longer.
const MAX_LOG_LINE: usize = 16 << 10;

/// A message from a server, as far as it is needed to know whom it is for.
#[derive(Debug)]
pub(in crate::client) enum Incoming<'a> {
    Response {
        /// None: not an id of ours, or none at all, as of a server that could not read what we sent.
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
    /// None: this is no message of JSON-RPC.
    fn parse(json: &'a [u8]) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_slice(json).ok()?;
        match envelope {
            Envelope { method: Some(method), id: Some(id), params, .. } => {
                Some(Self::Request { id, method, params })
            }
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

/// What came in one piece; the common case costs no list.
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

/// An id that the hub could have given.
pub(in crate::client) fn own(id: Option<&RawValue>) -> Option<RequestId> {
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

/// Progress and the request it is of. None: not for a request of ours.
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

/// The request that a server says it is done with: one of its own, or one of ours to listen.
pub(in crate::client) fn cancelled_request(params: Option<&RawValue>) -> Option<&RawValue> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    serde_json::from_str::<Params<'_>>(params?.get()).ok().map(|params| params.request_id)
}

/// What a server says has changed.
pub(in crate::client) fn news(method: &str, params: Option<&RawValue>) -> Option<News> {
    match method {
        "notifications/tools/list_changed" => Some(News::Tools),
        "notifications/resources/list_changed" => Some(News::Resources),
        "notifications/prompts/list_changed" => Some(News::Prompts),
        "notifications/resources/updated" => updated(params).map(News::Updated),
        _ => None,
    }
}

/// The request to listen that a notification belongs to.
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

/// A line of the server's log, whole. None where it is none, or longer than anybody reads.
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
