//! The protocol between hub and node: one JSON object per frame, independent of the transport.
//!
//! The node dials and sends `hello`; the hub answers `welcome`. From then on the hub sends `call` and
//! `cancel`, and the node sends `event` and `result`; each side confirms with `ack` what it has stored.
//! Frames of an unknown type are ignored, so either side may be newer than the other.

mod call;
pub mod close;
mod greeting;
pub mod poll;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use call::{
    Ack, Call, CallEvent, CallOutcome, CallResult, Caller, Cancel, CancelReason, Failure, Foreign, Output,
};
pub use greeting::{
    Bye, CallOrder, Dial, Heartbeat, HeldState, Hello, HostedServer, InFlight, NodeTool, Order, Welcome,
};

/// Protocol versions that this build supports, best first.
pub const VERSIONS: &[u32] = &[1];

/// Maximum length of a frame in bytes.
pub const MAX_FRAME: usize = 4 << 20;

/// One message of a link.
#[derive(Debug, Clone)]
pub enum Frame {
    Hello(Hello),
    Welcome(Welcome),
    Call(Call),
    Cancel(Cancel),
    Event(CallEvent),
    Result(CallResult),
    Ack(Ack),
    Ping(Heartbeat),
    Pong(Heartbeat),
    Bye(Bye),
}

/// A frame received over a link.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "destructured on receipt, and almost always a frame")]
pub enum Received {
    Frame(Frame),
    /// A frame type unknown to this build.
    Unknown(String),
}

/// A text that is not a valid frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFrame {
    /// The frame type, if it could be read.
    pub kind: Option<String>,
    pub why: String,
}

impl fmt::Display for InvalidFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "cannot parse frame of type {kind:?}: {}", self.why),
            None => write!(f, "not a frame: {}", self.why),
        }
    }
}

impl std::error::Error for InvalidFrame {}

/// The frame type is parsed separately first, so that the payload is parsed only once and raw JSON stays raw.
#[derive(Deserialize)]
struct Typed<'f> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'f, str>,
}

/// A frame with its type, as serialized.
#[derive(Serialize)]
struct Tagged<'f, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    frame: &'f T,
}

impl Frame {
    /// Parses one frame.
    pub fn parse(text: &str) -> Result<Received, InvalidFrame> {
        let typed: Typed<'_> =
            serde_json::from_str(text).map_err(|e| InvalidFrame { kind: None, why: e.to_string() })?;
        fn of<'f, T: Deserialize<'f>>(text: &'f str, kind: &str) -> Result<T, InvalidFrame> {
            serde_json::from_str(text)
                .map_err(|e| InvalidFrame { kind: Some(kind.to_owned()), why: e.to_string() })
        }
        let kind = typed.kind.as_ref();
        Ok(Received::Frame(match kind {
            "hello" => Self::Hello(of(text, kind)?),
            "welcome" => Self::Welcome(of(text, kind)?),
            "call" => Self::Call(of(text, kind)?),
            "cancel" => Self::Cancel(of(text, kind)?),
            "event" => Self::Event(of(text, kind)?),
            "result" => Self::Result(of(text, kind)?),
            "ack" => Self::Ack(of(text, kind)?),
            "ping" => Self::Ping(of(text, kind)?),
            "pong" => Self::Pong(of(text, kind)?),
            "bye" => Self::Bye(of(text, kind)?),
            other => return Ok(Received::Unknown(other.chars().take(64).collect())),
        }))
    }

    /// The serialized frame.
    #[must_use]
    pub fn text(&self) -> String {
        fn tagged<T: Serialize>(kind: &'static str, frame: &T) -> String {
            // Only maps with non-string keys fail to serialize, and frames have none.
            serde_json::to_string(&Tagged { kind, frame }).unwrap_or_default()
        }
        let kind = self.kind();
        match self {
            Self::Hello(frame) => tagged(kind, frame),
            Self::Welcome(frame) => tagged(kind, frame),
            Self::Call(frame) => tagged(kind, frame),
            Self::Cancel(frame) => tagged(kind, frame),
            Self::Event(frame) => tagged(kind, frame),
            Self::Result(frame) => tagged(kind, frame),
            Self::Ack(frame) => tagged(kind, frame),
            Self::Ping(frame) | Self::Pong(frame) => tagged(kind, frame),
            Self::Bye(frame) => tagged(kind, frame),
        }
    }

    /// The frame type, as in JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Welcome(_) => "welcome",
            Self::Call(_) => "call",
            Self::Cancel(_) => "cancel",
            Self::Event(_) => "event",
            Self::Result(_) => "result",
            Self::Ack(_) => "ack",
            Self::Ping(_) => "ping",
            Self::Pong(_) => "pong",
            Self::Bye(_) => "bye",
        }
    }
}
