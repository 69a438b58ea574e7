use plexus_proto::{Event, EventKind, SessionId, Timestamp};
use serde_json::{Value, json};

use super::{event, table, text, time};

const ATTACK: &str = "a\x1b[2J\x1b]0;owned\x07b\u{9b}31mc\r\nd\te\u{202e}f\x7f";

#[test]
fn no_control_character_reaches_a_terminal() {
    assert_eq!(text::one_line(ATTACK), "a[2J]0;ownedb31mc d ef");
    assert_eq!(text::lines(ATTACK), "a[2J]0;ownedb31mc\nd\tef");
    assert_eq!(text::one_line("grüße 👩‍🚀 日本"), "grüße 👩‍🚀 日本");
}

#[test]
fn json_keeps_its_value_without_control_characters() {
    let raw = "{\n\t\"text\": \"a\u{9b}31m \u{202e}\x7f \\u001b[2J\"\r\n}";
    let safe = text::json_on_one_line(raw);
    assert!(!safe.chars().any(char::is_control), "{safe:?}");
    let value = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    assert_eq!(value(&safe), value(raw));
}

#[test]
fn a_plain_table_has_one_line_a_row_and_one_tab_a_gap() {
    let rows = vec![
        vec!["a\tb".to_owned(), "c\nd".to_owned(), String::new()],
        vec!["\x1b[1me".to_owned(), "f".to_owned()],
    ];
    assert_eq!(table::plain(&rows), "a b\tc d\t\n[1me\tf\n");
    assert_eq!(table::plain(&[]), "");
}

#[test]
fn a_framed_table_has_headings_and_no_escapes() {
    let text = table::framed(&["NAME", "ABOUT"], &[vec!["echo".to_owned(), "says \x1b[31mit".to_owned()]]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines, ["NAME  ABOUT", "echo  says [31mit"]);
}

#[test]
fn fields_stand_below_each_other() {
    let fields = [("id", "1".to_owned()), ("version", "2\n3".to_owned())];
    assert_eq!(table::aligned(&fields), "id       1\nversion  2 3\n");
}

#[test]
fn a_long_text_is_cut_between_characters() {
    assert_eq!(text::shorten("grüße", 5), "grüße");
    assert_eq!(text::shorten("grüße!", 5), "grüß…");
}

#[test]
fn times_are_short() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let at = |text: &str| time::relative(text.parse().unwrap(), now);
    assert_eq!(at("2026-03-01T11:59:58Z"), "now");
    assert_eq!(at("2026-03-01T11:55:00Z"), "5m ago");
    assert_eq!(at("2026-03-01T15:30:00Z"), "in 3h");
    assert_eq!(at("2026-03-31T12:00:00Z"), "in 30d");
    assert_eq!(at("2025-03-01T12:00:00Z"), "2025-03-01");
    assert_eq!(time::utc(now), "2026-03-01 12:00:00Z");
    assert_eq!([12, 3_456, 306_000, 183_600_000].map(time::lasting), ["12ms", "3.4s", "5m 6s", "2d 3h"]);
}

#[test]
fn an_event_is_one_line() {
    let event = |kind, payload| Event {
        session_id: SessionId::new(),
        seq: 7,
        pos: 7,
        at: "2026-03-01T12:00:00Z".parse().unwrap(),
        kind,
        actor: "agent:codex".to_owned(),
        payload,
        external_id: None,
    };
    let call = event(EventKind::ToolCall, json!({"tool": "echo", "result": {"text": "hi"}, "success": true}));
    assert_eq!(event::line(&call), "     7  2026-03-01 12:00:00Z  tool_call     agent:codex  echo ok: hi");
    let other = event(EventKind::Other("note".to_owned()), json!({"a": 1}));
    assert!(event::line(&other).ends_with("note          agent:codex  {\"a\":1}"));
}
