//! `/api/v1/sessions`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Event, SessionId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    /// `codex:<thread>`, `claude:<session>`, `external:<client>:<id>`, `named:<name>`, `cli:<name>`.
    pub key: String,
    /// Subject of the principal it belongs to.
    pub owner: String,
    pub client: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Number of the newest event; 0 when there is none.
    pub last_seq: i64,
}

/// One session with a page of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionDetail {
    #[serde(flatten)]
    pub session: Session,
    pub events: Vec<Event>,
    /// `seq` to ask for next, when there are more events.
    pub next: Option<String>,
}
