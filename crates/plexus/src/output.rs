//! Everything a command prints.
//!
//! Answers go to standard output, remarks and errors to standard error. A reader that closes the
//! pipe ends the command quietly. What a person reads has no control characters in it, whoever
//! wrote it, and no colours but those of a comparison. Only this module writes to either stream; it
//! does so through `Write`, because `println!` panics when the reader is gone.

mod answers;
mod bar;
mod event;
mod progress;
mod table;
mod text;
mod time;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::styling::{AnsiColor, Style};
use plexus_kit::{Clock, Environment};
use plexus_proto::{ErrorCode, Event, Timestamp};
use serde_json::json;

use crate::failure::{Exit, Failure, OutputClosed};

pub(crate) use answers::{Answered, Answers, typed};
pub(crate) use bar::{Bar, bytes_in_words};
pub(crate) use progress::Progress;
pub(crate) use table::Column;
pub(crate) use text::{one_line, shorten};

/// Where a command's answer goes, and in which form.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    terminal: bool,
    colours: bool,
    clock: Clock,
}

impl Output {
    pub(crate) fn new(json: bool, clock: Clock, environment: &Environment) -> Self {
        let terminal = io::stdout().is_terminal();
        Self { json, terminal, colours: environment.wants_colours(terminal), clock }
    }

    /// Whether a program reads the answer.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether a person reads the answer as it comes, and not a program or a file.
    pub(crate) fn terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// JSON as the hub wrote it, on one line.
    pub(crate) fn json_line(&self, json: &str) -> anyhow::Result<()> {
        write(&format!("{}\n", text::json_on_one_line(json)))
    }

    /// One line of an answer.
    pub(crate) fn line(&self, line: &str) -> anyhow::Result<()> {
        write(&format!("{}\n", one_line(line)))
    }

    /// One line of a comparison, indented, and coloured by the sign that it begins with: `+` came, `-` went, `!` is strange.
    pub(crate) fn compared(&self, line: &str) -> anyhow::Result<()> {
        let line = one_line(line);
        let style = match line.chars().next().filter(|_| self.colours) {
            Some('+') => AnsiColor::Green.on_default(),
            Some('-') => AnsiColor::Red.on_default(),
            Some('!') => AnsiColor::Yellow.on_default(),
            _ => Style::new(),
        };
        write(&format!("  {style}{line}{style:#}\n"))
    }

    /// Text of several lines from elsewhere: cleaned for a terminal, untouched in a pipe.
    pub(crate) fn block(&self, block: &str) -> anyhow::Result<()> {
        let end = if block.is_empty() || block.ends_with('\n') { "" } else { "\n" };
        match self.terminal {
            true => write(&format!("{}{end}", text::lines(block))),
            false => write(&format!("{block}{end}")),
        }
    }

    /// Rows under headings that fit a terminal, tab-separated lines with all there is in a pipe.
    pub(crate) fn table<C: Into<Column> + Copy>(
        &self,
        columns: &[C],
        rows: Vec<Vec<String>>,
    ) -> anyhow::Result<()> {
        match self.terminal {
            true => {
                let columns: Vec<Column> = columns.iter().map(|column| (*column).into()).collect();
                let width = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_col);
                write(&table::framed(&columns, &rows, usize::from(width)))
            }
            false => write(&table::plain(&rows)),
        }
    }

    /// Names and values, one pair a line.
    pub(crate) fn fields(&self, fields: &[(&str, String)]) -> anyhow::Result<()> {
        match self.terminal {
            true => write(&table::aligned(fields)),
            false => {
                let rows: Vec<_> =
                    fields.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]).collect();
                write(&table::plain(&rows))
            }
        }
    }

    /// One event of a session on one line.
    pub(crate) fn event(&self, event: &Event) -> anyhow::Result<()> {
        self.line(&event::line(event))
    }

    /// One event among those of all sessions on one line.
    pub(crate) fn event_of_all(&self, event: &Event) -> anyhow::Result<()> {
        self.line(&event::line_of_all(event, self.terminal))
    }

    /// A time in a list: how long ago on a terminal, in UTC in a pipe.
    pub(crate) fn when(&self, at: Timestamp) -> String {
        match self.terminal {
            true => time::relative(at, self.now()),
            false => time::utc(at),
        }
    }

    /// A time with all that is known about it.
    pub(crate) fn at(&self, at: Timestamp) -> String {
        let (utc, relative) = (time::utc(at), time::relative(at, self.now()));
        // A far time is a date in both forms.
        if self.terminal && !utc.starts_with(&relative) { format!("{utc} ({relative})") } else { utc }
    }

    /// A length of time.
    pub(crate) fn lasting(&self, milliseconds: i64) -> String {
        time::lasting(milliseconds)
    }

    /// Shows that something is under way.
    pub(crate) fn progress(&self, doing: &str) -> Progress {
        Progress::start(doing, self.json)
    }

    /// Whether there is a person who can answer.
    pub(crate) fn can_ask(&self) -> bool {
        !self.json && io::stdin().is_terminal()
    }

    /// Gets ready to ask.
    pub(crate) fn answers(&self) -> anyhow::Result<Answers> {
        Answers::new()
    }

    /// A remark beside the answer.
    pub(crate) fn note(&self, note: &str) {
        remark(&one_line(note));
    }
}

/// What a person should know before the command is run.
pub(crate) fn warning(text: &str) {
    remark(&format!("warning: {}", one_line(text)));
}

/// Tells a person why the command ended, and says with which code it should.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    if error.is::<OutputClosed>() {
        return Exit::OutputClosed.into();
    }
    if json {
        return report_json(error);
    }
    let Some(failure) = error.downcast_ref::<Failure>() else {
        remark(&format!("error: {}", text::lines(&chain(error))));
        return Exit::Failed.into();
    };
    remark(&format!("error: {}", text::lines(&failure.message)));
    if let Some(hint) = &failure.hint {
        remark(&format!("hint: {}", text::lines(hint)));
    }
    if let Some(id) = &failure.request_id {
        remark(&format!("request id: {} (the hub's log has the details under it)", one_line(id)));
    }
    failure.exit.into()
}

/// The same for a program.
fn report_json(error: &anyhow::Error) -> ExitCode {
    let failure = error.downcast_ref::<Failure>();
    let exit = failure.map_or(Exit::Failed, |failure| failure.exit);
    let code = failure.and_then(|failure| failure.code).map_or(exit.code(), ErrorCode::as_str);
    let mut told = json!({
        "code": code,
        "message": failure.map_or_else(|| chain(error), ToString::to_string),
        "hint": failure.and_then(|failure| failure.hint.as_deref()),
    });
    if let Some(id) = failure.and_then(|failure| failure.request_id.as_deref()) {
        told["request_id"] = json!(id);
    }
    remark(&text::json_on_one_line(&told.to_string()));
    exit.into()
}

/// Tells why a command line cannot be used, or shows the help that it asked for.
pub(crate) fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if !json || !error.use_stderr() {
        // Where the stream is gone, there is nobody left to tell.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
    }
    let rendered = error.render().to_string();
    let message = rendered.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    let failure = Failure::new(Exit::Usage, message).hint("see `plexus --help`");
    report_json(&failure.into())
}

/// An error and its causes; a cause that was quoted by the one above it is not said twice.
fn chain(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !told.contains(&cause) {
            told.push_str(if told.is_empty() { "" } else { ": " });
            told.push_str(&cause);
        }
    }
    told
}

/// A file that this program makes, byte by byte as it is.
pub(crate) fn file(content: &[u8]) -> anyhow::Result<()> {
    write_bytes(content)
}

/// Something that happened, for a program, on one line.
pub(crate) fn json_event(event: &serde_json::Value) -> anyhow::Result<()> {
    write(&format!("{event}\n"))
}

/// A remark on a terminal that takes everything as it is, and begins a line only where it is told to.
pub(crate) fn raw_remark(text: &str) {
    let _ = write!(io::stderr().lock(), "\r\n[plexus: {}]\r\n", one_line(text));
}

/// A remark of a program that runs another one, in whose output it stands.
pub(crate) fn aside(text: &str) {
    remark(&one_line(text));
}

/// What a hub says when it is up. Nobody may be there to read it, which is no reason to stop.
pub(crate) fn announce(text: &str) {
    let _ = write(text);
}

fn write(text: &str) -> anyhow::Result<()> {
    write_bytes(text.as_bytes())
}

fn write_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        result => result.context("cannot write to standard output"),
    }
}

fn remark(text: &str) {
    // Where standard error is gone too, there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests;
