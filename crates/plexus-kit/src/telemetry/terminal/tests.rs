use jiff::{Timestamp, tz};
use tracing::Level;

use super::{Fields, line, shown};

fn fields(message: &str, others: &[(&'static str, &str)]) -> Fields {
    let others = others.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Fields { message: message.to_owned(), others }
}

#[test]
fn a_line_has_local_time_level_message_and_fields() {
    let zone = tz::TimeZone::fixed(tz::offset(2));
    let at: Timestamp = "2026-03-01T23:05:06Z".parse().unwrap();
    let now = at.to_zoned(zone);
    let fields = fields("server ready", &[("server", "files"), ("tools", "14")]);
    assert_eq!(
        line(&now, Level::INFO, &fields, false),
        "01:05:06  INFO server ready server=files tools=14\n"
    );
    let coloured = line(&now, Level::WARN, &fields, true);
    assert!(coloured.contains("\x1b[33m WARN\x1b[0m server ready"), "{coloured:?}");
}

#[test]
fn no_control_character_of_a_value_reaches_the_terminal() {
    assert_eq!(shown("a\x1b[2J\x07\nb\u{9b}c", 100), "a[2J bc");
    assert_eq!(shown("abcdef", 3), "abc…");
}
