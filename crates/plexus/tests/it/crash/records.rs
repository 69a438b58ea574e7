//! The audit entries and session events of the writes of a round.

use std::collections::{BTreeSet, HashMap};

use plexus_testkit::faults::{Sent, Write};
use plexus_testkit::{HubProcess, SessionWriter};
use serde_json::Value;

/// Number of the newest audit entry.
pub(super) async fn newest_entry(hub: &HubProcess) -> i64 {
    let status = hub.api("/api/v1/status").await;
    status["audit"]["head"]["n"].as_i64().unwrap_or(0)
}

/// The audited calls of one round.
pub(super) struct Records {
    by_call: HashMap<String, Value>,
    /// The calls with each marker.
    by_marker: HashMap<String, Vec<String>>,
}

impl Records {
    /// All calls with entries after number `since`.
    pub(super) async fn since(hub: &HubProcess, since: i64) -> Self {
        let old = |call: &Value| call["entries"][0].as_i64().expect("an entry") <= since;
        let mut records = Self { by_call: HashMap::new(), by_marker: HashMap::new() };
        for call in hub.list("/api/v1/audit", old).await {
            let id = call["call_id"].as_str().expect("an id").to_owned();
            let arguments = &call["arguments"];
            let text = arguments["text"].as_str().or(arguments["content"].as_str()).unwrap_or_default();
            for marker in Write::markers(text) {
                records.by_marker.entry(marker.to_owned()).or_default().push(id.clone());
            }
            assert!(records.by_call.insert(id, call).is_none(), "one call has two records");
        }
        records
    }

    /// Number of recorded calls with a marker, done or not.
    pub(super) fn times(&self, marker: &str) -> usize {
        self.by_marker.get(marker).map_or(0, Vec::len)
    }

    /// The sessions in which these markers were written.
    pub(super) fn sessions<'a>(&self, markers: impl Iterator<Item = &'a str>) -> Vec<String> {
        let calls = markers.filter_map(|marker| self.by_marker.get(marker)).flatten();
        let sessions = calls.map(|id| self.by_call[id]["session_id"].as_str().expect("a session").to_owned());
        sessions.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Checks the calls of one writer: each is in the audit with the right names and in the session once, and an effect
    /// exists only together with its records.
    pub(super) async fn check(&self, hub: &HubProcess, sent: &Sent<SessionWriter>, effects: &[String]) {
        let writer = &sent.writer;
        let mut sessions: Vec<&str> = Vec::new();
        for (write, done) in sent.acknowledged() {
            let call = self.by_call.get(&done.call_id);
            let call = call.unwrap_or_else(|| panic!("{write:?} has no audit record"));
            assert_eq!(self.by_marker[&write.marker], [done.call_id.as_str()], "{write:?}");
            assert_eq!(call["entries"].as_array().map(Vec::len), Some(2), "{call}");
            assert_eq!(call["outcome"], "ok", "{call}");
            assert_eq!(call["actor"], writer.subject().as_str(), "{call}");
            assert_eq!(call["token_id"], writer.token.jti.to_string().as_str(), "{call}");
            assert_eq!(call["via"], writer.via(), "{call}");
            assert_eq!(call["tool"], SessionWriter::arguments(write).0, "{call}");
            sessions.push(call["session_id"].as_str().expect("a session"));
        }
        sessions.dedup();
        assert!(sessions.len() <= 1, "one client, several sessions: {sessions:?}");
        let Some(session) = sessions.first() else { return };
        let events = hub.events(session).await;
        contiguous(&events);
        let calls = calls(&events, &writer.subject());
        for (write, done) in sent.acknowledged() {
            assert_eq!(calls.get(&done.call_id), Some(&(1, 1)), "events of {write:?}");
        }
        for write in sent.unanswered() {
            self.check_unanswered(write, effects.contains(&write.marker), &calls);
        }
    }

    /// Effect, audit entry and event exist together or not at all, as they are one transaction.
    fn check_unanswered(&self, write: &Write, effect: bool, events: &HashMap<String, (usize, usize)>) {
        let recorded = self.by_marker.get(&write.marker).map_or(&[][..], Vec::as_slice);
        assert!(recorded.len() <= 1, "{write:?} was sent once: {recorded:?}");
        let finished = recorded.iter().any(|id| self.by_call[id]["outcome"] == "ok");
        assert_eq!(finished, effect, "effect and audit of {write:?} differ");
        let ended = recorded.iter().any(|id| events.get(id).is_some_and(|(_, ended)| *ended == 1));
        assert_eq!(ended, effect, "effect and events of {write:?} differ");
    }
}

/// Checks that the events are numbered from one without gaps or duplicates.
pub(crate) fn contiguous(events: &[Value]) {
    let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_i64().expect("a number")).collect();
    let expected: Vec<_> = (1..=numbers.len() as i64).collect();
    assert_eq!(numbers, expected, "the events have a gap or a duplicate");
}

/// How often each call began and ended according to the events, which must all have this actor.
pub(crate) fn calls(events: &[Value], actor: &str) -> HashMap<String, (usize, usize)> {
    let mut calls: HashMap<String, (usize, usize)> = HashMap::new();
    for event in events {
        assert_eq!(event["actor"], actor, "{event}");
        let id = event["payload"]["call_id"].as_str();
        let id = id.unwrap_or_else(|| panic!("an event without a call: {event}"));
        let (began, ended) = calls.entry(id.to_owned()).or_default();
        match event["kind"].as_str() {
            Some("tool_started") => {
                assert_eq!(*ended, 0, "{event} comes after its end");
                *began += 1;
            }
            Some("tool_call") => *ended += 1,
            _ => panic!("an event of another kind: {event}"),
        }
    }
    calls
}
