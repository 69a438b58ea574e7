//! Which commands may be run.
//!
//! A pattern is the beginning of a command, word by word. An allow list holds: what cannot be told apart with certainty is
//! refused, and a line for the shell is one only as far as it is words, quotes and the signs between commands. A deny list
//! is there against mistakes: a shell has more ways to name a program than can be listed, and what is to hold against
//! intent is the sandbox.

mod line;

use plexus_kit::{glob, shell};

pub(crate) use line::Unclear;

/// Any command.
const ALL: &str = "*";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRules {
    /// None: all.
    allow: Option<Vec<Vec<String>>>,
    deny: Vec<Vec<String>>,
}

/// Why a command is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefused {
    #[error("the policy of this machine does not allow `{0}`")]
    NotAllowed(String),
    #[error("the policy of this machine denies `{0}`")]
    Denied(String),
    #[error("this machine allows certain commands only, and {0} cannot be compared with them")]
    Unclear(&'static str),
}

impl CommandRules {
    pub(super) fn new(allow: &[String], deny: &[String]) -> Self {
        let words = |pattern: &String| pattern.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let allow = (!allow.iter().any(|pattern| pattern.trim() == ALL))
            .then(|| allow.iter().map(words).filter(|words| !words.is_empty()).collect());
        Self { allow, deny: deny.iter().map(words).filter(|words| !words.is_empty()).collect() }
    }

    /// Whether only certain commands are allowed.
    #[must_use]
    pub fn are_restricted(&self) -> bool {
        self.allow.is_some()
    }

    /// What is allowed and what is denied, as it can be written.
    #[must_use]
    pub fn lists(&self) -> (Vec<String>, Vec<String>) {
        let written = |patterns: &[Vec<String>]| patterns.iter().map(|words| words.join(" ")).collect();
        (self.allow.as_deref().map_or_else(|| vec![ALL.to_owned()], written), written(&self.deny))
    }

    /// A program and its arguments.
    pub fn check_argv(&self, argv: &[String]) -> Result<(), CommandRefused> {
        let shown = || argv.iter().map(|word| shell::word(word)).collect::<Vec<_>>().join(" ");
        let by_name: Vec<String> = argv
            .iter()
            .enumerate()
            // However it is reached, it is the same program.
            .map(|(place, word)| match place {
                0 => word.rsplit('/').next().unwrap_or(word).to_owned(),
                _ => word.clone(),
            })
            .collect();
        if self.deny.iter().any(|pattern| begins(pattern, argv) || begins(pattern, &by_name)) {
            return Err(CommandRefused::Denied(shown()));
        }
        match &self.allow {
            // As it was written: another program of the same name is another program.
            Some(allow) if !allow.iter().any(|pattern| begins(pattern, argv)) => {
                Err(CommandRefused::NotAllowed(shown()))
            }
            _ => Ok(()),
        }
    }

    /// A line for the shell.
    pub fn check_line(&self, text: &str) -> Result<(), CommandRefused> {
        if self.allow.is_some() {
            let commands = line::plain(text).map_err(|Unclear(what)| CommandRefused::Unclear(what))?;
            return commands.iter().try_for_each(|argv| self.check_argv(argv));
        }
        if self.deny.is_empty() {
            return Ok(());
        }
        line::roughly(text).iter().try_for_each(|argv| self.check_argv(argv))
    }
}

fn begins(pattern: &[String], argv: &[String]) -> bool {
    pattern.len() <= argv.len() && pattern.iter().zip(argv).all(|(wanted, word)| glob::matches(wanted, word))
}

#[cfg(test)]
mod tests;
