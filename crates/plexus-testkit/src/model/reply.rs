//! One answer, ready to be written in any wire format.

use std::time::Duration;

use serde_json::{Map, Value};

use super::request::{OfferedTool, ParsedRequest};
use super::script::Usage;

/// Characters per piece of a stream: few, so that clients must join pieces.
const PIECE: usize = 12;

#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// Unique among the replies of this model.
    pub(super) serial: usize,
    pub(super) model: String,
    pub(super) text: Option<String>,
    pub(super) calls: Vec<ReplyCall>,
    pub(super) usage: Usage,
}

#[derive(Debug, Clone)]
pub(super) struct ReplyCall {
    pub(super) id: String,
    pub(super) tool: OfferedTool,
    pub(super) arguments: Value,
}

/// One event of a stream.
#[derive(Debug)]
pub(super) struct Frame {
    /// `None` in Chat Completions, whose events have no names.
    pub(super) event: Option<&'static str>,
    pub(super) data: String,
}

impl Frame {
    /// An event that contains its own name as `type`.
    pub(super) fn typed(event: &'static str, mut data: Value) -> Self {
        data["type"] = event.into();
        Self { event: Some(event), data: data.to_string() }
    }

    pub(super) fn unnamed(data: impl ToString) -> Self {
        Self { event: None, data: data.to_string() }
    }

    pub(super) fn bytes(&self) -> String {
        let event = self.event.map(|event| format!("event: {event}\n")).unwrap_or_default();
        format!("{event}data: {}\n\n", self.data)
    }
}

/// An error in place of an answer.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
    /// 400: the request cannot be understood, or the script does not fit it.
    Invalid(String),
    /// 404.
    NoSuchPath(String),
    /// 413.
    TooLarge(String),
    /// 429.
    RateLimited(Duration),
    /// 500.
    Broken(String),
    Overloaded,
}

impl Refusal {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Invalid(why) | Self::NoSuchPath(why) | Self::TooLarge(why) | Self::Broken(why) => {
                why.clone()
            }
            Self::RateLimited(_) => "too many requests, as the script says".to_owned(),
            Self::Overloaded => "overloaded, as the script says".to_owned(),
        }
    }
}

/// Reads requests and writes answers in the format of one provider.
pub(super) trait WireFormat: Sync {
    /// Parses model, tools and messages of a body, or returns the error.
    fn parse(&self, body: &Value) -> Result<ParsedRequest, String>;
    /// The answer as a single object.
    fn whole(&self, reply: &Reply) -> Value;
    /// The answer as a stream, according to the settings of the request.
    fn stream(&self, reply: &Reply, settings: &Map<String, Value>) -> Vec<Frame>;
    /// Status and body of an error.
    fn error(&self, refusal: &Refusal) -> (u16, Value);
}

/// Splits a text into pieces.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
}

/// Status and body of an OpenAI error, which is the same in both of its formats.
pub(super) fn openai_error(refusal: &Refusal) -> (u16, Value) {
    let (status, kind) = match refusal {
        Refusal::Invalid(_) => (400, "invalid_request_error"),
        Refusal::NoSuchPath(_) => (404, "invalid_request_error"),
        Refusal::TooLarge(_) => (413, "invalid_request_error"),
        Refusal::RateLimited(_) => (429, "rate_limit_error"),
        Refusal::Broken(_) => (500, "server_error"),
        Refusal::Overloaded => (503, "server_error"),
    };
    let error =
        serde_json::json!({ "message": refusal.message(), "type": kind, "param": null, "code": null });
    (status, serde_json::json!({ "error": error }))
}
