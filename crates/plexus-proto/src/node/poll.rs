//! Link frames as HTTP request bodies, for networks that block WebSockets.
//!
//! `POST /api/v1/nodes/{id}/frames` takes a [`PollSend`] and answers with a [`PollTaken`]; `GET` on the same
//! path with the parameters of a [`PollQuery`] answers with a [`PollBatch`]. The first `POST` carries only
//! `hello` and no epoch; its answer contains the epoch that all later requests must carry. The hub answers an
//! outdated epoch with 409, and a link that it has closed with 410.
//!
//! Frames are numbered per direction and epoch, starting at 1. A request whose answer was lost can be
//! repeated: the receiver skips frames it already has, by their number.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Maximum number of frames in one request or answer.
pub const MAX_FRAMES: usize = 256;

/// Maximum size in bytes of one request or answer: one frame of maximum length, or many short ones.
pub const MAX_POLL_BYTES: usize = super::MAX_FRAME + (64 << 10);

/// Longest time in milliseconds that the hub holds a `GET` open before it answers without frames.
pub const MAX_WAIT_MS: u64 = 25_000;

/// Frames sent by a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PollSend {
    /// `None` opens a link; `frames` then contains only `hello`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    pub frames: Vec<Numbered>,
}

/// A frame and its sequence number within its direction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Numbered {
    pub n: u64,
    pub frame: Box<RawValue>,
}

/// Acknowledges the frames of a `POST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollTaken {
    /// Epoch of this link.
    pub epoch: u64,
    /// Number of the newest frame that the hub has received.
    pub taken: u64,
}

/// Requests the frames that the hub has queued for the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollQuery {
    pub epoch: u64,
    /// Number of the newest frame that the node has received; the hub may discard it and all earlier ones.
    pub after: u64,
    /// How long to wait for the first frame; default and maximum are [`MAX_WAIT_MS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Frames queued for the node, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PollBatch {
    pub frames: Vec<Numbered>,
}
