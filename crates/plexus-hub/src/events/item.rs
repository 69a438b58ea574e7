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
mod tests {
    use plexus_proto::{Event, EventKind, SessionId, Timestamp};
    use plexus_store::StoredEvent;

    use super::Item;

    #[test]
    fn item_is_the_rest_event_on_one_line() {
        for (payload, external_id) in [
            ("{\"tool\":\"todo\",\"b\":1.0}", None),
            ("{\n  \"tool\": \"todo\",\r\n  \"text\": \"a\\nb\"\n}", Some("x")),
            ("null", None),
            ("{\"cut", None),
        ] {
            let stored = StoredEvent {
                session_id: SessionId::new(),
                seq: 3,
                pos: 7,
                at: Timestamp::from_millisecond(1_700_000_000_123).unwrap(),
                kind: EventKind::Other("from elsewhere".to_owned()),
                actor: "agent:a".to_owned(),
                payload: payload.to_owned(),
                external_id: external_id.map(str::to_owned),
                owner: "agent:b".to_owned(),
            };
            let event = Event {
                session_id: stored.session_id,
                seq: stored.seq,
                pos: stored.pos,
                at: stored.at,
                kind: stored.kind.clone(),
                actor: stored.actor.clone(),
                payload: serde_json::from_str(payload).unwrap_or_else(|_| payload.into()),
                external_id: stored.external_id.clone(),
            };
            let item = Item::new(stored);
            assert!(!item.json.contains(['\n', '\r']), "{:?}", item.json);
            assert_eq!(serde_json::from_str::<Event>(&item.json).unwrap(), event);
            let keys = |json: &str| -> Vec<String> {
                let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).unwrap();
                object.into_iter().map(|(key, _)| key).collect()
            };
            assert_eq!(keys(&item.json), keys(&serde_json::to_string(&event).unwrap()));
        }
    }
}
