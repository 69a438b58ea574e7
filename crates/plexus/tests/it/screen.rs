//! Somebody at a terminal, who sees what a terminal shows: the characters that are left on it, and not the bytes that came.

use std::path::Path;
use std::time::Duration;

use pty_process::{Pty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

/// For something to be seen.
const PATIENCE: Duration = Duration::from_secs(120);
const ROWS: u16 = 70;
const COLUMNS: u16 = 160;

pub(crate) struct Screen {
    pty: Pty,
    /// Ends with it.
    _shell: Child,
    parser: vt100::Parser,
}

fn blank() -> vt100::Parser {
    let size = |lines| std::num::NonZero::new(lines).expect("a size");
    vt100::Parser::new(size(ROWS), size(COLUMNS), 0)
}

impl Screen {
    /// A shell in this home, on a terminal with colours.
    pub(crate) fn open(home: &Path, variables: &[(&str, String)]) -> Self {
        let (pty, inside) = pty_process::open().expect("a terminal");
        pty.resize(Size::new(ROWS, COLUMNS)).expect("a size");
        let shell = pty_process::Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-i"])
            .env_clear()
            .env("HOME", home)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("PS1", "$ ")
            .envs(variables.iter().map(|(name, value)| (*name, value.as_str())))
            .current_dir(home)
            .kill_on_drop(true)
            .spawn(inside)
            .expect("a shell");
        Self { pty, _shell: shell, parser: blank() }
    }

    pub(crate) async fn types(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).await.expect("keys");
    }

    /// What is on it, without the blanks at the ends of lines.
    pub(crate) fn text(&self) -> String {
        let lines: Vec<String> =
            self.parser.screen().contents().lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned()
    }

    /// Waits until this is to be seen.
    pub(crate) async fn sees(&mut self, words: &str) {
        let looked = async {
            let mut block = vec![0; 4096];
            while !self.text().contains(words) {
                match self.pty.read(&mut block).await {
                    Ok(read @ 1..) => self.parser.process(&block[..read]),
                    _ => return false,
                }
            }
            true
        };
        let seen = tokio::time::timeout(PATIENCE, looked).await;
        assert!(matches!(seen, Ok(true)), "{words:?} is not to be seen in\n{}", self.text());
    }

    /// An empty screen, with what is typed next at its top.
    pub(crate) async fn cleared(&mut self) {
        self.types("clear; echo cle\"ared\"\r").await;
        self.sees("cleared\n$").await;
        self.parser = blank();
    }
}
