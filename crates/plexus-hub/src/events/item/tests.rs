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
