//! Messages of an event stream, over WebSocket and as server-sent events.
//!
//! A message is an [`Event`] or a [`StreamControl`]; only the latter has a key `control`. Event numbers are a
//! session's `seq` on the stream of one session, and `pos` on the stream of all sessions.

use serde::{Deserialize, Serialize};

use crate::Event;

/// A message about the stream itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum StreamControl {
    /// First message: events after this number follow.
    Open { after: i64 },
    /// Events after `after`, up to and including `through`, are no longer stored.
    Pruned { after: i64, through: i64 },
    /// All past events were sent; the following ones are live.
    Live { after: i64 },
}

/// One message of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StreamMessage {
    Control(StreamControl),
    Event(Event),
}

/// Reason in the close frame of a WebSocket, with the position from which the client should resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamResume {
    /// Value for the parameter `after`.
    pub resume_after: i64,
}

/// Codes with which the hub closes a WebSocket, in addition to those of RFC 6455.
pub mod close_code {
    /// The token expired or was revoked.
    pub const UNAUTHENTICATED: u16 = 4401;
    /// The client read too slowly; the reason contains the position to resume from.
    pub const TOO_SLOW: u16 = 4408;
}
