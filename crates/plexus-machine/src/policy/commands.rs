//! The command allowlist and denylist.
//!
//! A pattern is a command prefix, compared word by word. The allowlist is strict: a command that cannot be matched
//! with certainty is refused, so a shell line may contain only words, quotes and command separators. The denylist
//! only guards against mistakes, because a shell offers more ways to name a program than a list can cover. The
//! sandbox is the protection against intent.

mod line;

use plexus_kit::{glob, shell};

pub(crate) use line::UnsupportedSyntax;

/// Matches any command.
const ALL: &str = "*";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRules {
    /// `None` allows all commands.
    allow: Option<Vec<Vec<String>>>,
    deny: Vec<Vec<String>>,
}

/// The reason a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefused {
    #[error("the policy of this machine does not allow `{0}`")]
    NotAllowed(String),
    #[error("the policy of this machine denies `{0}`")]
    Denied(String),
    #[error("this machine allows certain commands only, and {0} cannot be checked against them")]
    UnsupportedSyntax(&'static str),
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

    /// The allowed and denied patterns, as they are written in the policy file.
    #[must_use]
    pub fn lists(&self) -> (Vec<String>, Vec<String>) {
        let written = |patterns: &[Vec<String>]| patterns.iter().map(|words| words.join(" ")).collect();
        (self.allow.as_deref().map_or_else(|| vec![ALL.to_owned()], written), written(&self.deny))
    }

    /// Checks a program and its arguments.
    pub fn check_argv(&self, argv: &[String]) -> Result<(), CommandRefused> {
        let shown = || argv.iter().map(|word| shell::word(word)).collect::<Vec<_>>().join(" ");
        let by_name: Vec<String> = argv
            .iter()
            .enumerate()
            // The denylist compares by file name: a program is the same whatever path it is started from.
            .map(|(index, word)| match index {
                0 => word.rsplit('/').next().unwrap_or(word).to_owned(),
                _ => word.clone(),
            })
            .collect();
        if self
            .deny
            .iter()
            .any(|pattern| starts_with_pattern(pattern, argv) || starts_with_pattern(pattern, &by_name))
        {
            return Err(CommandRefused::Denied(shown()));
        }
        match &self.allow {
            // The allowlist compares the path as written: a program of the same name in another folder is a different
            // program.
            Some(allow) if !allow.iter().any(|pattern| starts_with_pattern(pattern, argv)) => {
                Err(CommandRefused::NotAllowed(shown()))
            }
            _ => Ok(()),
        }
    }

    /// Checks a shell command line.
    pub fn check_line(&self, text: &str) -> Result<(), CommandRefused> {
        if self.allow.is_some() {
            let commands = line::parse_commands(text)
                .map_err(|UnsupportedSyntax(what)| CommandRefused::UnsupportedSyntax(what))?;
            return commands.iter().try_for_each(|argv| self.check_argv(argv));
        }
        if self.deny.is_empty() {
            return Ok(());
        }
        line::possible_commands(text).iter().try_for_each(|argv| self.check_argv(argv))
    }
}

fn starts_with_pattern(pattern: &[String], argv: &[String]) -> bool {
    pattern.len() <= argv.len()
        && pattern.iter().zip(argv).all(|(pattern_part, word)| glob::matches(pattern_part, word))
}

#[cfg(test)]
mod tests;
