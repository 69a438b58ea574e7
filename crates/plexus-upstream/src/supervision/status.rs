//! The current status of one server, shown to people and awaited by callers.

use plexus_proto::Timestamp;
use plexus_proto::api::{UpstreamEra, UpstreamFailure, UpstreamState};

use crate::client::Peer;

#[derive(Debug, Clone)]
pub(super) struct Status {
    /// The turn that this status answers; see [`DesiredState`](super::lifecycle::reload::DesiredState).
    pub(super) turn: u64,
    pub(super) state: UpstreamState,
    pub(super) since: Timestamp,
    /// The server's description of itself at its last connection.
    pub(super) peer: Option<Peer>,
    /// Its era at the last connection, possibly from the cache.
    pub(super) era: Option<UpstreamEra>,
    pub(super) pid: Option<u32>,
    /// Starts and connects since the hub started.
    pub(super) attempts: u64,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) failure: Option<UpstreamFailure>,
}

impl Status {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            turn: 0,
            state: UpstreamState::Starting,
            since: now,
            peer: None,
            era: None,
            pid: None,
            attempts: 0,
            retry_at: None,
            failure: None,
        }
    }

    /// Whether the outcome of a desired state is known.
    pub(super) fn has_settled(&self, turn: u64) -> bool {
        self.turn >= turn && self.state != UpstreamState::Starting
    }
}

/// Why a server in this state is not usable; none if nothing is wrong.
pub(super) fn trouble(status: &Status) -> Option<String> {
    match status.state {
        UpstreamState::Invalid | UpstreamState::Down | UpstreamState::Failed | UpstreamState::NeedsLogin => {
            Some(
                status
                    .failure
                    .as_ref()
                    .map_or_else(|| "the reason is unknown".to_owned(), |f| f.message.clone()),
            )
        }
        UpstreamState::Starting => {
            let last = status.failure.as_ref().map(|f| format!("; before that: {}", f.message));
            Some(format!("it has not answered yet, and the hub is still waiting{}", last.unwrap_or_default()))
        }
        UpstreamState::Disabled | UpstreamState::Idle | UpstreamState::Ready => None,
    }
}
