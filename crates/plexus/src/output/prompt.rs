//! Prompts on the terminal, and lines of standard input.

use std::io::{self, BufRead as _, Write as _};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::text::one_line;

/// The lines of standard input. They are read by a detached thread, because a read of a terminal cannot be cancelled.
pub(crate) fn stdin_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(4);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Asks the user questions on the terminal.
#[derive(Debug)]
pub(crate) struct Prompt {
    lines: mpsc::Receiver<String>,
    interrupts: Signal,
}

/// The reply to a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PromptReply {
    /// The line, trimmed and in lowercase.
    Line(String),
    /// End of input, such as Ctrl-D.
    Eof,
    /// Ctrl-C.
    Interrupted,
}

impl Prompt {
    /// From here on, Ctrl-C does not end the program, so that it can report what it has already done.
    pub(super) fn new() -> anyhow::Result<Self> {
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        Ok(Self { lines: stdin_lines(), interrupts })
    }

    /// Prints the question and waits for a line.
    pub(crate) async fn ask(&mut self, question: &str) -> PromptReply {
        // A failed write is ignored: nobody will confirm a question that is not visible.
        let _ = io::stderr().lock().write_all(format!("{} ", one_line(question)).as_bytes());
        let reply = tokio::select! {
            biased;
            _ = self.interrupts.recv() => PromptReply::Interrupted,
            line = self.lines.recv() => match line {
                Some(line) => return PromptReply::Line(line.trim().to_lowercase()),
                None => PromptReply::Eof,
            },
        };
        // The cursor is still after the question.
        let _ = writeln!(io::stderr().lock());
        reply
    }
}
