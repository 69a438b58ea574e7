//! A program on a pseudo-terminal, operated as a user does: typed keys, output, and what the screen shows.

use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use plexus_testkit::Plexus;
use pty_process::{Pty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// Time limit for expected output or the end of the program.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Rows and columns.
pub(crate) const SMALL: (u16, u16) = (30, 100);
pub(crate) const LARGE: (u16, u16) = (70, 160);

pub(crate) struct Terminal {
    pty: Pty,
    child: Child,
    size: (u16, u16),
    /// The output as text.
    output: String,
    /// Position in `output` up to which [`Self::expect`] has searched.
    read_to: usize,
    screen: vt100::Parser,
}

fn empty_screen((rows, columns): (u16, u16)) -> vt100::Parser {
    let size = |lines| NonZero::new(lines).expect("a size");
    vt100::Parser::new(size(rows), size(columns), 0)
}

impl Terminal {
    /// Starts a command, with its arguments, environment and folder, on a new terminal.
    pub(crate) fn start(command: &Command, size: (u16, u16)) -> Self {
        Self::spawn(command, Some(size))
    }

    /// `size` is `None` for a terminal that does not know its size, like one that `script` creates.
    fn spawn(command: &Command, size: Option<(u16, u16)>) -> Self {
        let (pty, inside) = pty_process::open().expect("a terminal");
        if let Some((rows, columns)) = size {
            pty.resize(Size::new(rows, columns)).expect("a size");
        }
        let command = command.as_std();
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut started = pty_process::Command::new(command.get_program())
            .args(command.get_args())
            .env_clear()
            .envs(variables)
            .kill_on_drop(true);
        if let Some(folder) = command.get_current_dir() {
            started = started.current_dir(folder);
        }
        let child = started.spawn(inside).expect("the program starts");
        let size = size.unwrap_or(LARGE);
        Self { pty, child, size, output: String::new(), read_to: 0, screen: empty_screen(size) }
    }

    /// A line for `sh` in this home, on a terminal that does not know its size.
    pub(crate) fn line(plexus: &Plexus, line: &str) -> Self {
        Self::spawn(&plexus.command("/bin/sh", &["-c", line]), None)
    }

    /// An interactive shell in this home, with colours; `path` precedes the system's folders.
    pub(crate) fn shell(home: &Path, path: &str) -> Self {
        let mut command = Command::new("/bin/bash");
        command
            .args(["--norc", "--noprofile", "-i"])
            .env("HOME", home)
            .env("PATH", format!("{path}:/usr/bin:/bin"))
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("PS1", "$ ")
            .current_dir(home);
        Self::start(&command, LARGE)
    }

    /// Id of the program's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("a running process")
    }

    pub(crate) fn resize(&self, (rows, columns): (u16, u16)) {
        self.pty.resize(Size::new(rows, columns)).expect("a size");
    }

    pub(crate) async fn send(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).await.expect("keys");
    }

    /// Reads more output; false at its end.
    async fn read(&mut self) -> bool {
        let mut block = [0; 4096];
        // Linux reports an error when no process has the terminal open any more.
        let Ok(read @ 1..) = self.pty.read(&mut block).await else { return false };
        self.output.push_str(&String::from_utf8_lossy(&block[..read]));
        self.screen.process(&block[..read]);
        true
    }

    /// Waits until new output, after that of earlier calls, contains a text. Returns the new output up to its end.
    pub(crate) async fn expect(&mut self, text: &str) -> String {
        let found = tokio::time::timeout(TIMEOUT, async {
            loop {
                let new = &self.output[self.read_to..];
                if let Some(at) = new.find(text) {
                    let found = new[..at + text.len()].to_owned();
                    self.read_to += found.len();
                    return Some(found);
                }
                if !self.read().await {
                    return None;
                }
            }
        });
        match found.await {
            Ok(Some(found)) => found,
            _ => panic!("no {text:?} in {:?}", &self.output[self.read_to..]),
        }
    }

    /// Waits until the screen shows a text.
    pub(crate) async fn expect_on_screen(&mut self, text: &str) {
        let shown = tokio::time::timeout(TIMEOUT, async {
            while !self.screen_text().contains(text) {
                if !self.read().await {
                    return false;
                }
            }
            true
        });
        let shown = shown.await;
        assert!(matches!(shown, Ok(true)), "no {text:?} on the screen:\n{}", self.screen_text());
    }

    /// The characters on the screen, without trailing blanks.
    pub(crate) fn screen_text(&self) -> String {
        let contents = self.screen.screen().contents();
        let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned()
    }

    /// Clears the screen of a [`Self::shell`].
    pub(crate) async fn clear(&mut self) {
        self.send("clear; echo cle\"ared\"\r").await;
        self.expect_on_screen("cleared\n$").await;
        self.screen = empty_screen(self.size);
    }

    /// Reads until the program has ended; returns its exit code and all of its output.
    pub(crate) async fn finish(mut self) -> (Option<i32>, String) {
        let ended = tokio::time::timeout(TIMEOUT, async {
            while self.read().await {}
            self.child.wait().await
        });
        let Ok(status) = ended.await else { panic!("the program does not end: {:?}", self.output) };
        (status.expect("a status").code(), self.output)
    }

    /// Closes the terminal, which sends `SIGHUP` to the program.
    pub(crate) fn hang_up(self) -> Child {
        self.child
    }
}

/// The output of a shell line on a terminal, both streams together.
pub(crate) async fn run_on_terminal(plexus: &Plexus, line: &str) -> String {
    Terminal::line(plexus, line).finish().await.1
}
