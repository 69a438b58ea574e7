use plexus_proto::{Event, EventKind, SessionId, Timestamp};
use serde_json::{Value, json};

use super::{event, table, text, time, wrap};

const ATTACK: &str = "a\x1b[2J\x1b]0;owned\x07b\u{9b}31mc\r\nd\te\u{202e}f\x7f";

#[test]
fn control_characters_are_removed() {
    assert_eq!(text::one_line(ATTACK), "a[2J]0;ownedb31mc d ef");
    assert_eq!(text::lines(ATTACK), "a[2J]0;ownedb31mc\nd\tef");
    assert_eq!(text::one_line("grüße 👩‍🚀 日本"), "grüße 👩‍🚀 日本");
}

#[test]
fn json_keeps_its_value_when_control_characters_are_escaped() {
    let raw = "{\n\t\"text\": \"a\u{9b}31m \u{202e}\x7f \\u001b[2J\"\r\n}";
    let safe = text::json_on_one_line(raw);
    assert!(!safe.chars().any(char::is_control), "{safe:?}");
    let value = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    assert_eq!(value(&safe), value(raw));
}

#[test]
fn tab_separated_table_has_one_line_per_row() {
    let rows = vec![
        vec!["a\tb".to_owned(), "c\nd".to_owned(), String::new()],
        vec!["\x1b[1me".to_owned(), "f".to_owned()],
    ];
    assert_eq!(table::tab_separated(&rows), "a b\tc d\t\n[1me\tf\n");
    assert_eq!(table::tab_separated(&[]), "");
}

#[test]
fn fitted_table_has_headings_and_no_escapes() {
    let columns = ["NAME", "ABOUT"].map(table::Column::from);
    let text = table::fitted(&columns, &[vec!["echo".to_owned(), "says \x1b[31mit".to_owned()]], 80);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines, ["NAME  ABOUT", "echo  says [31mit"]);
}

const ROW: [&str; 6] = [
    "01890a5d-ac96-774b-bcce-b302099a8057",
    "a-rather-long-name-of-an-agent",
    "/home/ann/code/company/product/frontend",
    "Rewrite the importer 日本語 so that it reads both forms of dates",
    "12",
    "external:some-editor:01890a5d-ac96-774b-bcce-b302099a8057",
];

fn shown(width: usize) -> Vec<String> {
    let columns = [
        table::Column::id("ID"),
        table::Column::new("AGENT"),
        table::Column::path("FOLDER").rank(1),
        table::Column::new("TITLE"),
        table::Column::whole("CALLS"),
        table::Column::whole("KEY").rank(2),
    ];
    let text = table::fitted(&columns, &[ROW.map(str::to_owned).to_vec()], width);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn table_fits_the_terminal_and_keeps_its_ids() {
    for width in [24, 40, 60, 80, 100, 120, 160, 400] {
        let lines = shown(width);
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in &lines {
            assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= width, "{width}: {lines:?}");
        }
        assert!(lines[1].starts_with("099a8057  "), "{width}: {lines:?}");
    }
    assert!(ROW[1..].iter().all(|cell| shown(400)[1].contains(cell)));
}

#[test]
fn columns_of_the_highest_rank_are_omitted_first() {
    let headings = |width| shown(width)[0].split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(headings(160), ["ID", "AGENT", "FOLDER", "TITLE", "CALLS", "KEY"]);
    assert_eq!(headings(80), ["ID", "AGENT", "FOLDER", "TITLE", "CALLS"]);
    assert_eq!(headings(60), ["ID", "AGENT", "TITLE", "CALLS"]);
    // The end of a path is kept, and the start of a text.
    let row = &shown(80)[1];
    assert!(row.contains("product/frontend  Rewrite the") && row.contains('…'), "{row}");
}

#[test]
fn ids_with_equal_suffixes_are_shown_until_they_differ() {
    let ids = ["01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b312099a8057"];
    let rows: Vec<Vec<String>> = ids.iter().map(|id| vec![(*id).to_owned()]).collect();
    assert_eq!(table::fitted(&[table::Column::id("ID")], &rows, 80), "ID\n02099a8057\n12099a8057\n");
}

#[test]
fn field_values_are_aligned() {
    let fields = [("id", "1".to_owned()), ("version", "2\n3".to_owned())];
    assert_eq!(table::aligned(&fields, 80), "id       1\nversion  2 3\n");
}

#[test]
fn text_is_wrapped_by_words_beside_its_label() {
    let text = "one word after another until the end of the line";
    let expected = "label  one word after another\n       until the end of the\n       line\n";
    assert_eq!(wrap::hanging("label  ", text, 31), expected);
    for width in 31..60 {
        let wrapped = wrap::hanging("label  ", text, width);
        assert!(wrapped.lines().all(|line| line.len() <= width), "{width}: {wrapped}");
        assert_eq!(wrapped.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), text);
    }
    assert_eq!(wrap::hanging("label  ", "", 80), "label\n");
}

#[test]
fn word_wider_than_the_line_stays_whole() {
    let path = "/home/ann/code/company/product/frontend/index.html";
    let wrapped = wrap::hanging("in  ", &format!("the file {path} is gone"), 30);
    assert_eq!(wrapped, format!("in  the file\n    {path}\n    is gone\n"));
    assert_eq!(wrap::hanging("in  ", path, 30), format!("in  {path}\n"), "no line is empty");
}

#[test]
fn command_in_backticks_is_not_broken_if_it_fits() {
    let text = "matched its head; (`plexus audit verify`) checks all";
    assert_eq!(wrap::hanging("", text, 30), "matched its head;\n(`plexus audit verify`) checks\nall\n");
    let long = "a `b c d e f g h i j k l m n` o";
    assert_eq!(wrap::hanging("", long, 24), "a `b c d e f g h i j k l\nm n` o\n", "longer than the line");
    let lone = "a ` lone mark in a long text";
    assert_eq!(wrap::hanging("", lone, 24), "a ` lone mark in a long\ntext\n");
}

#[test]
fn text_beside_a_wide_label_is_indented_less() {
    let label = "a label of thirty characters: ";
    assert_eq!(wrap::hanging(label, "and some more words", 40), format!("{label}and some\n  more words\n"));
}

#[test]
fn wide_characters_count_twice_when_text_is_cut() {
    assert_eq!(wrap::cut("日本語", 6), "日本語");
    assert_eq!(wrap::cut("日本語!", 6), "日本…");
    assert_eq!(wrap::cut_start("/home/ann", 6), "…e/ann");
}

#[test]
fn long_text_is_cut_between_characters() {
    assert_eq!(text::shorten("grüße", 5), "grüße");
    assert_eq!(text::shorten("grüße!", 5), "grüß…");
}

#[test]
fn times_have_short_forms() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let at = |text: &str| time::relative(text.parse().unwrap(), now);
    assert_eq!(at("2026-03-01T11:59:58Z"), "now");
    assert_eq!(at("2026-03-01T11:55:00Z"), "5m ago");
    assert_eq!(at("2026-03-01T15:30:00Z"), "in 3h");
    assert_eq!(at("2026-03-31T12:00:00Z"), "in 30d");
    assert_eq!(at("2025-03-01T12:00:00Z"), "2025-03-01");
    assert_eq!(time::utc(now), "2026-03-01 12:00:00Z");
    assert_eq!([12, 3_456, 306_000, 183_600_000].map(time::duration), ["12ms", "3.4s", "5m 6s", "2d 3h"]);
}

#[test]
fn event_is_one_line() {
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
