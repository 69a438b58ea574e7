//! What an event stream carries beside events, over WebSocket and as server-sent events.
//!
//! A message is an [`Event`] or a [`StreamControl`]; only the latter has a key `control`. Numbers are
//! a session's `seq` on the stream of one session, and `pos` on that of all.

use serde::{Deserialize, Serialize};

use crate::Event;

/// A word of the hub about the stream itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum StreamControl {
    /// First of all: events after this number follow.
    Open { after: i64 },
    /// Events after `after`, up to and with `through`, are no longer kept.
    Pruned { after: i64, through: i64 },
    /// All that had happened was sent; what follows happens now.
    Live { after: i64 },
}

/// One message of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StreamMessage {
    Control(StreamControl),
    Event(Event),
}

/// The reason in the close frame of a WebSocket, where the client should come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamResume {
    /// To be passed as `after`.
    pub resume_after: i64,
}

/// Codes with which the hub closes a WebSocket, beside those of RFC 6455.
pub mod close_code {
    /// The token expired or was revoked.
    pub const UNAUTHENTICATED: u16 = 4401;
    /// The client read too slowly; the reason says where to go on.
    pub const TOO_SLOW: u16 = 4408;
}
