//! The same frames as bodies of requests, where a WebSocket does not get through.
//!
//! `POST /api/v1/nodes/{id}/frames` takes a [`PollSend`] and answers with a [`PollTaken`]; `GET` of the same path with the
//! parameters of a [`PollQuery`] answers with a [`PollBatch`]. The first `POST` carries `hello` alone and no epoch: its
//! answer names the epoch that all later requests carry. An epoch that is no longer the newest is answered with 409, a
//! link that the hub has ended with 410.
//!
//! Frames are numbered for each direction and epoch: 1, 2, 3 … A request whose answer was lost can be made again: what
//! was taken before is passed over by its number.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Frames in one request at most, and in one answer.
pub const MAX_FRAMES: usize = 256;

/// Bytes of one request at most, and of one answer: one frame of the longest, or many short ones.
pub const MAX_POLL_BYTES: usize = super::MAX_FRAME + (64 << 10);

/// The hub answers `GET` with no frames after so many milliseconds, at the latest.
pub const MAX_WAIT_MS: u64 = 25_000;

/// What a node sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PollSend {
    /// None: this begins a link, with `hello`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    pub frames: Vec<Numbered>,
}

/// A frame and its place among those of its direction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Numbered {
    pub n: u64,
    pub frame: Box<RawValue>,
}

/// The frames of a `POST` have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollTaken {
    /// Of this link.
    pub epoch: u64,
    /// Number of the newest frame that the hub has.
    pub taken: u64,
}

/// What a node wants to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollQuery {
    pub epoch: u64,
    /// Number of the newest frame that the node has; the hub need not keep it, nor any before it.
    pub after: u64,
    /// Wait so long for the first frame; [`MAX_WAIT_MS`] unless told, and no longer than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// What the hub has for it, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PollBatch {
    pub frames: Vec<Numbered>,
}
