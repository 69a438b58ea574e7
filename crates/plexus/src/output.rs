//! Everything that commands print.
//!
//! Results go to standard output, notes and errors to standard error. If the reader closes the pipe, the command ends
//! without a message. Text for people never contains control characters, and only diffs are coloured. Only this
//! module and `console` write to these streams. They use `Write`, because `println!` panics when the reader is gone.

mod bar;
mod event;
mod progress;
mod prompt;
mod table;
mod text;
mod time;
mod wrap;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::styling::{AnsiColor, Style};
use plexus_kit::{Clock, Environment};
use plexus_proto::{ErrorCode, Event, Timestamp};
use serde_json::json;

use crate::failure::{Exit, Failure, OutputClosed};
use crate::short_id::ShortIds;

pub(crate) use bar::{Bar, human_bytes};
pub(crate) use progress::Progress;
pub(crate) use prompt::{Prompt, PromptReply, stdin_lines};
pub(crate) use table::Column;
pub(crate) use text::{one_line, shorten};

/// Width of a terminal whose size is unknown.
const DEFAULT_WIDTH: usize = 80;

/// Prints the result of a command, as text or as JSON.
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

    /// Whether `--json` was given.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether standard output is a terminal.
    pub(crate) fn terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Prints JSON of the hub on one line.
    pub(crate) fn json_line(&self, json: &str) -> anyhow::Result<()> {
        write(&format!("{}\n", text::json_on_one_line(json)))
    }

    /// Prints one line.
    pub(crate) fn line(&self, line: &str) -> anyhow::Result<()> {
        write(&format!("{}\n", one_line(line)))
    }

    /// Prints an indented line of a diff, coloured by its first character: `+` added, `-` removed, `!` suspicious.
    pub(crate) fn diff_line(&self, line: &str) -> anyhow::Result<()> {
        let line = one_line(line);
        let style = match line.chars().next().filter(|_| self.colours) {
            Some('+') => AnsiColor::Green.on_default(),
            Some('-') => AnsiColor::Red.on_default(),
            Some('!') => AnsiColor::Yellow.on_default(),
            _ => Style::new(),
        };
        write(&format!("  {style}{line}{style:#}\n"))
    }

    /// Prints untrusted text of several lines: without control characters on a terminal, unmodified in a pipe.
    pub(crate) fn block(&self, block: &str) -> anyhow::Result<()> {
        let end = if block.is_empty() || block.ends_with('\n') { "" } else { "\n" };
        match self.terminal {
            true => write(&format!("{}{end}", text::lines(block))),
            false => write(&format!("{block}{end}")),
        }
    }

    /// Prints rows: with headings and fitted to the width of a terminal, or as complete tab-separated lines in a
    /// pipe.
    pub(crate) fn table<C: Into<Column> + Copy>(
        &self,
        columns: &[C],
        rows: Vec<Vec<String>>,
    ) -> anyhow::Result<()> {
        match self.terminal {
            true => {
                let columns: Vec<Column> = columns.iter().map(|column| (*column).into()).collect();
                write(&table::fitted(&columns, &rows, width()))
            }
            false => write(&table::tab_separated(&rows)),
        }
    }

    /// Prints names and values, one pair per line. On a terminal, values are wrapped at its width.
    pub(crate) fn fields(&self, fields: &[(&str, String)]) -> anyhow::Result<()> {
        match self.terminal {
            true => write(&table::aligned(fields, width())),
            false => {
                let rows: Vec<_> =
                    fields.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]).collect();
                write(&table::tab_separated(&rows))
            }
        }
    }

    /// Prints a label and a text. On a terminal, the text is wrapped at its width, beside the label.
    pub(crate) fn labelled(&self, label: &str, text: &str) -> anyhow::Result<()> {
        let (label, text) = (one_line(label), one_line(text));
        match self.terminal {
            true => write(&wrap::hanging(&label, &text, width())),
            false => write(&format!("{label}{text}\n")),
        }
    }

    /// Prints an event of one session on one line.
    pub(crate) fn event(&self, event: &Event) -> anyhow::Result<()> {
        self.row(&event::line(event))
    }

    /// Prints events with their sessions, one per line. On a terminal, the ids of the sessions are shortened.
    pub(crate) fn events_of_all(&self, events: &[&Event], sessions: &mut ShortIds) -> anyhow::Result<()> {
        let ids: Vec<String> = events.iter().map(|event| event.session_id.to_string()).collect();
        sessions.add(&ids);
        events.iter().zip(&ids).try_for_each(|(event, id)| {
            let session = if self.terminal { sessions.shorten(id) } else { id };
            self.row(&event::line_of_all(event, session))
        })
    }

    /// Prints one line, cut to the width of a terminal.
    fn row(&self, line: &str) -> anyhow::Result<()> {
        let line = one_line(line);
        match self.terminal {
            true => write(&format!("{}\n", wrap::cut(&line, width()))),
            false => write(&format!("{line}\n")),
        }
    }

    /// Formats a time for a list: relative on a terminal, in UTC in a pipe.
    pub(crate) fn when(&self, at: Timestamp) -> String {
        match self.terminal {
            true => time::relative(at, self.now()),
            false => time::utc(at),
        }
    }

    /// Formats a time in full: in UTC, and relative on a terminal.
    pub(crate) fn at(&self, at: Timestamp) -> String {
        let (utc, relative) = (time::utc(at), time::relative(at, self.now()));
        // A distant time is a date in both forms.
        if self.terminal && !utc.starts_with(&relative) { format!("{utc} ({relative})") } else { utc }
    }

    /// Formats a duration.
    pub(crate) fn duration(&self, milliseconds: i64) -> String {
        time::duration(milliseconds)
    }

    /// Shows a spinner with a message.
    pub(crate) fn progress(&self, message: &str) -> Progress {
        Progress::start(message, self.json)
    }

    /// Whether the user can be prompted.
    pub(crate) fn can_prompt(&self) -> bool {
        !self.json && io::stdin().is_terminal()
    }

    /// Prepares for prompts, see [`Prompt`].
    pub(crate) fn prompt(&self) -> anyhow::Result<Prompt> {
        Prompt::new()
    }

    /// Prints a note to standard error.
    pub(crate) fn note(&self, text: &str) {
        note(text);
    }
}

/// Prints a warning to standard error.
pub(crate) fn warning(text: &str) {
    print_error_line(&format!("warning: {}", one_line(text)));
}

/// Prints an error and its hint, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    if error.is::<OutputClosed>() {
        return Exit::OutputClosed.into();
    }
    if json {
        return report_json(error);
    }
    let Some(failure) = error.downcast_ref::<Failure>() else {
        print_error_line(&format!("error: {}", text::lines(&chain(error))));
        return Exit::Failed.into();
    };
    print_error_line(&format!("error: {}", text::lines(&failure.message)));
    if let Some(hint) = &failure.hint {
        print_error_line(&format!("hint: {}", text::lines(hint)));
    }
    if let Some(id) = &failure.request_id {
        print_error_line(&format!("request id: {} (the hub's log contains the details)", one_line(id)));
    }
    failure.exit.into()
}

/// Like [`report`], as JSON.
fn report_json(error: &anyhow::Error) -> ExitCode {
    let failure = error.downcast_ref::<Failure>();
    let exit = failure.map_or(Exit::Failed, |failure| failure.exit);
    let code = failure.and_then(|failure| failure.code).map_or(exit.code(), ErrorCode::as_str);
    let mut report = json!({
        "code": code,
        "message": failure.map_or_else(|| chain(error), ToString::to_string),
        "hint": failure.and_then(|failure| failure.hint.as_deref()),
    });
    if let Some(id) = failure.and_then(|failure| failure.request_id.as_deref()) {
        report["request_id"] = json!(id);
    }
    print_error_line(&text::json_on_one_line(&report.to_string()));
    exit.into()
}

/// Prints a usage error, or the requested help or version.
pub(crate) fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if !json || !error.use_stderr() {
        // If the stream is closed, there is no other place to report to.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
    }
    let rendered = error.render().to_string();
    let message = rendered.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    let failure = Failure::new(Exit::Usage, message).hint("see `plexus --help`");
    report_json(&failure.into())
}

/// The text of an error and its causes, without causes that an outer text already contains.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

/// Prints a JSON event on one line.
pub(crate) fn json_event(event: &serde_json::Value) -> anyhow::Result<()> {
    write(&format!("{event}\n"))
}

/// Prints a note to a terminal in raw mode, which needs `\r\n` line ends.
pub(crate) fn raw_mode_note(text: &str) {
    let _ = write!(io::stderr().lock(), "\r\n[plexus: {}]\r\n", one_line(text));
}

/// Prints a note to standard error.
pub(crate) fn note(text: &str) {
    print_error_line(&one_line(text));
}

/// Prints the startup message of a hub. Errors are ignored: the hub also runs without a reader.
pub(crate) fn announce(text: &str) {
    let _ = write(text);
}

/// The width of the terminal.
fn width() -> usize {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => DEFAULT_WIDTH,
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    write_bytes(text.as_bytes())
}

/// Writes unmodified bytes to standard output.
pub(crate) fn write_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        result => result.context("cannot write to standard output"),
    }
}

fn print_error_line(text: &str) {
    // If standard error is closed, there is no other place to report to.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests;
