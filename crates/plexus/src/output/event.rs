//! A session event on one line, for a person.

use plexus_proto::{Event, EventKind};
use serde_json::Value;

use super::text::shorten;
use super::time::utc;
use crate::short_id;

/// Longest summary of a payload.
const SUMMARY: usize = 160;

/// With its number in the session.
pub(super) fn line(event: &Event) -> String {
    format!("{:>6}  {}", event.seq, what(event))
}

/// With its place among all events, and its session.
pub(super) fn line_of_all(event: &Event, terminal: bool) -> String {
    let session = event.session_id.to_string();
    let session = if terminal { short_id::short(&session) } else { &session };
    format!("{:>8}  {session}  {}", event.pos, what(event))
}

fn what(event: &Event) -> String {
    let summary = shorten(&summary(event), SUMMARY);
    format!("{}  {:<12}  {}  {summary}", utc(event.at), event.kind.as_str(), event.actor)
}

fn summary(event: &Event) -> String {
    let payload = &event.payload;
    let tool = payload["tool"].as_str().unwrap_or("?");
    match &event.kind {
        EventKind::ToolStarted => format!("{tool} {}", short(&payload["args"])),
        EventKind::ToolCall => {
            let outcome = if payload["success"].as_bool() == Some(true) { "ok" } else { "failed" };
            format!("{tool} {outcome}: {}", short(&payload["result"]))
        }
        EventKind::Other(_) => short(payload),
    }
}

/// A string as it is, the text of a result, anything else as JSON.
fn short(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(object) => match object.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        },
        _ => value.to_string(),
    }
}
