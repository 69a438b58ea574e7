//! Sanitizes output of third-party programs for display: removes terminal control sequences and the secrets
//! that were passed to the program.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::ExposeSecret;

use crate::Secret;
use crate::credential::{self, REDACTED};

/// Shorter values are usually switches or numbers that occur in unrelated lines; secret names have a lower
/// limit.
const MIN_VALUE: usize = 8;
const MIN_SECRET: usize = 4;

/// Secret values passed to a process, longest first.
#[derive(Clone, Default)]
pub struct Withheld(Vec<String>);

impl Withheld {
    /// The lines of all values in a server file's `env`.
    #[must_use]
    pub fn of(env: &BTreeMap<String, Secret>) -> Self {
        let mut values: Vec<String> = Vec::new();
        for (name, value) in env {
            let min_len = if credential::is_secret_name(name) { MIN_SECRET } else { MIN_VALUE };
            let lines = value.expose_secret().lines().map(str::trim).filter(|line| line.len() >= min_len);
            values.extend(lines.map(str::to_owned));
        }
        // A value may contain another one.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// Length in bytes of the longest value.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }

    /// Redacts all values in a line.
    #[must_use]
    pub fn redact(&self, mut line: String) -> String {
        for value in &self.0 {
            if line.contains(value) {
                line = line.replace(value, REDACTED);
            }
        }
        line
    }
}

/// Prints the number of values only.
impl fmt::Debug for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Withheld").field("values", &self.0.len()).finish()
    }
}

/// Truncates a text to at most `limit` bytes, at a character boundary, and appends `…`.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(limit)])
}

/// Removes control characters and terminal escape sequences, such as colours.
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
