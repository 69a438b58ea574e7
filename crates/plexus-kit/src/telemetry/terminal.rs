//! Log lines for a person at a terminal: local time, level, message and the fields of the event itself.
//!
//! What only a search needs, which is the target and the fields of spans such as `request_id`, is left out. A log that is
//! not on a terminal has it.

use std::fmt::{self, Write as _};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent};
use tracing_subscriber::registry::LookupSpan;

/// Longest value of a field, in characters.
const MAX_VALUE: usize = 120;
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

pub(super) struct Lines {
    zone: TimeZone,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { zone: TimeZone::system() }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = Zoned::new(Timestamp::now(), self.zone.clone());
        let line = line(&now, *event.metadata().level(), &fields, writer.has_ansi_escapes());
        writer.write_str(&line)
    }
}

fn line(now: &Zoned, level: Level, fields: &Fields, colours: bool) -> String {
    let paint = |code: &'static str| if colours { code } else { "" };
    let (dim, reset) = (paint(DIM), paint(RESET));
    let colour = paint(match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        _ => "\x1b[34m",
    });
    let (time, message) = (now.strftime("%H:%M:%S"), &fields.message);
    let mut line = format!("{dim}{time}{reset} {colour}{level:>5}{reset} {message}");
    for (name, value) in &fields.others {
        // Writing to a string does not fail.
        let _ = write!(line, " {dim}{name}={reset}{value}");
    }
    line.push('\n');
    line
}

#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    fn set(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = shown(value, usize::MAX),
            name => {
                let value = shown(value, MAX_VALUE);
                let plain = !value.is_empty() && !value.contains([' ', '"', '=']);
                self.others.push((name, if plain { value } else { format!("{value:?}") }));
            }
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, &format!("{value:?}"));
    }
}

/// On one line, without characters that do something to a terminal, and at most `most` characters long.
fn shown(text: &str, most: usize) -> String {
    let mut chars = text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control());
    let mut kept: String =
        chars.by_ref().take(most).map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    if chars.next().is_some() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests;
