//! Text of programs that are not ours, as it may be shown: without orders to a terminal, and without what the program was
//! told in confidence.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::ExposeSecret;

use crate::Secret;
use crate::credential::{self, REDACTED};

/// A shorter value is a switch or a number, which stands in many a line that is not about it; unless its name says
/// that it is secret.
const MIN_WITHHELD: usize = 8;
const MIN_SECRET: usize = 4;

/// What a process was told in confidence, longest first.
#[derive(Clone, Default)]
pub struct Withheld(Vec<String>);

impl Withheld {
    /// The values of its file's `env`, each line of them.
    #[must_use]
    pub fn of(env: &BTreeMap<String, Secret>) -> Self {
        let mut values: Vec<String> = Vec::new();
        for (name, value) in env {
            let enough = if credential::is_secret_name(name) { MIN_SECRET } else { MIN_WITHHELD };
            let lines = value.expose_secret().lines().map(str::trim).filter(|line| line.len() >= enough);
            values.extend(lines.map(str::to_owned));
        }
        // One may be a part of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// Bytes of the longest of them.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }

    /// The line without any of them.
    #[must_use]
    pub fn out_of(&self, mut line: String) -> String {
        for value in &self.0 {
            if line.contains(value) {
                line = line.replace(value, REDACTED);
            }
        }
        line
    }
}

/// Nothing of what it holds.
impl fmt::Debug for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Withheld").field("values", &self.0.len()).finish()
    }
}

/// The beginning of a text, where it is longer than that many bytes.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(limit)])
}

/// Without colours and other orders to a terminal.
#[must_use]
pub fn clean(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' if chars.next_if_eq(&'[').is_some() => {
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\t' => clean.push('\t'),
            char if char.is_control() => {}
            char => clean.push(char),
        }
    }
    clean
}
