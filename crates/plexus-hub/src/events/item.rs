//! An event as it is sent: its JSON is serialized once for all readers.

use axum::extract::ws::Utf8Bytes;
use plexus_proto::{EventKind, SessionId, Timestamp};
use plexus_store::StoredEvent;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

#[derive(Debug)]
pub(super) struct Item {
    pub(super) session_id: SessionId,
    pub(super) seq: i64,
    pub(super) pos: i64,
    pub(super) kind: EventKind,
    /// Subject that the session belongs to.
    pub(super) owner: String,
    /// The event as in the REST API, on one line.
    pub(super) json: Utf8Bytes,
}

/// The same fields as `plexus_proto::Event`, without parsing the payload.
#[derive(Serialize)]
struct Wire<'a> {
    session_id: SessionId,
    seq: i64,
    pos: i64,
    at: Timestamp,
    kind: &'a EventKind,
    actor: &'a str,
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
}

impl Item {
    pub(super) fn new(event: StoredEvent) -> Self {
        let payload = on_one_line(&event.payload);
        let wire = Wire {
            session_id: event.session_id,
            seq: event.seq,
            pos: event.pos,
            at: event.at,
            kind: &event.kind,
            actor: &event.actor,
            payload: &payload,
            external_id: event.external_id.as_deref(),
        };
        // The fields are text and numbers only, so serialization cannot fail.
        let json = serde_json::to_string(&wire).unwrap_or_default();
        Self {
            session_id: event.session_id,
            seq: event.seq,
            pos: event.pos,
            kind: event.kind,
            owner: event.owner,
            json: json.into(),
        }
    }
}

/// The payload without line breaks, which would end a server-sent event. A payload that is unexpectedly not JSON is
/// passed on as a string, because one damaged row must not stop a stream.
fn on_one_line(payload: &str) -> Box<RawValue> {
    let as_it_is = || RawValue::from_string(payload.to_owned()).ok();
    let rewritten = || serde_json::from_str(payload).unwrap_or_else(|_| Value::from(payload));
    let unchanged = if payload.contains(['\n', '\r']) { None } else { as_it_is() };
    unchanged.or_else(|| to_raw_value(&rewritten()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
