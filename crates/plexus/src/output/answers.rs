//! What a person types.

use std::io::{self, BufRead as _, Write as _};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::text::one_line;

/// Lines of standard input. A thread reads them, which ends with the program and is not waited for: nothing can end a read
/// of a terminal.
pub(crate) fn typed() -> mpsc::Receiver<String> {
    let (lines, typed) = mpsc::channel(4);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    typed
}

/// Answers to questions, until the person has had enough of them.
#[derive(Debug)]
pub(crate) struct Answers {
    typed: mpsc::Receiver<String>,
    interrupts: Signal,
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// In small letters, without blanks around it.
    With(String),
    /// There will be no more answers: Ctrl-D.
    NoMore,
    /// Ctrl-C.
    Interrupted,
}

impl Answers {
    /// From now on Ctrl-C does not end the program: what was done until then has to be told.
    pub(super) fn new() -> anyhow::Result<Self> {
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        Ok(Self { typed: typed(), interrupts })
    }

    pub(crate) async fn to(&mut self, question: &str) -> Answered {
        // Where nobody sees the question, nobody says yes.
        let _ = io::stderr().lock().write_all(format!("{} ", one_line(question)).as_bytes());
        let answered = tokio::select! {
            biased;
            _ = self.interrupts.recv() => Answered::Interrupted,
            line = self.typed.recv() => match line {
                Some(line) => return Answered::With(line.trim().to_lowercase()),
                None => Answered::NoMore,
            },
        };
        // The cursor is still behind the question.
        let _ = writeln!(io::stderr().lock());
        answered
    }
}
