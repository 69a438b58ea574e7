//! A write as shown to other code.

use plexus_kit::clock::from_millis;
use plexus_proto::Timestamp;

use super::row::Row;

/// A write in the outbox, without its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Identifies the write in this file; also its position in the queue.
    pub id: i64,
    /// The idempotency key.
    pub key: String,
    pub session: String,
    pub tool: String,
    /// JSON: the client information reported by the client.
    pub client: String,
    pub bytes: u64,
    pub occurred_at: Timestamp,
    /// When it was queued; later than `occurred_at` for one that was retried.
    pub queued_at: Timestamp,
    /// Number of times it was claimed.
    pub attempts: u32,
    pub state: WriteState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteState {
    /// `why` is the error of the last attempt.
    Waiting {
        not_before: Option<Timestamp>,
        why: Option<String>,
    },
    /// Claimed by a process.
    Sending {
        owner: String,
        until: Timestamp,
    },
    Dead {
        at: Timestamp,
        reason: String,
        hub_notified: bool,
        agent_notified: bool,
    },
}

/// Filter for listing writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFilter {
    Pending,
    Dead,
    All,
}

pub(super) const HUB_NOTIFIED: i64 = 1;
pub(super) const AGENT_NOTIFIED: i64 = 2;

impl Write {
    pub(super) fn of(row: Row, is_leased: impl Fn(i64) -> bool) -> (Self, String) {
        let state = match (row.died_at, row.owner) {
            (Some(at), _) => WriteState::Dead {
                at: from_millis(at),
                reason: row.note.unwrap_or_default(),
                hub_notified: row.notified & HUB_NOTIFIED != 0,
                agent_notified: row.notified & AGENT_NOTIFIED != 0,
            },
            (None, Some(owner)) if is_leased(row.lease_until) => {
                WriteState::Sending { owner, until: from_millis(row.lease_until) }
            }
            _ => WriteState::Waiting {
                not_before: (row.not_before > 0).then(|| from_millis(row.not_before)),
                why: row.note,
            },
        };
        let write = Self {
            id: row.id,
            key: row.key,
            session: row.session,
            tool: row.tool,
            client: row.client,
            bytes: row.bytes.unsigned_abs(),
            occurred_at: from_millis(row.occurred_at),
            queued_at: from_millis(row.queued_at),
            attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
            state,
        };
        (write, row.params)
    }
}
