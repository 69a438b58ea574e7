//! Formats a session event on one line.

use plexus_proto::{Event, EventKind};
use serde_json::Value;

use super::text::shorten;
use super::time::utc;

/// Maximum length of the summary of a payload.
const MAX_SUMMARY: usize = 160;

/// An event with its number in the session.
pub(super) fn line(event: &Event) -> String {
    format!("{:>6}  {}", event.seq, description(event))
}

/// An event with its position among all events, and the id of its session as shown.
pub(super) fn line_of_all(event: &Event, session: &str) -> String {
    format!("{:>8}  {session}  {}", event.pos, description(event))
}

fn description(event: &Event) -> String {
    let summary = shorten(&summary(event), MAX_SUMMARY);
    format!("{}  {:<12}  {}  {summary}", utc(event.at), event.kind.as_str(), event.actor)
}

fn summary(event: &Event) -> String {
    let payload = &event.payload;
    let tool = payload["tool"].as_str().unwrap_or("?");
    match &event.kind {
        EventKind::ToolStarted => format!("{tool} {}", value_text(&payload["args"])),
        EventKind::ToolCall => {
            let outcome = if payload["success"].as_bool() == Some(true) { "ok" } else { "failed" };
            format!("{tool} {outcome}: {}", value_text(&payload["result"]))
        }
        EventKind::Other(_) => value_text(payload),
    }
}

/// A string unchanged, the text of a result, or any other value as JSON.
fn value_text(value: &Value) -> String {
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
