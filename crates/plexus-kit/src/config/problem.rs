//! Configuration errors and their locations.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::env;

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, message: String },
    #[error("{}:{line}: unknown key `{key}`{}", path.display(), did_you_mean(*nearest))]
    UnknownKey { path: PathBuf, line: usize, key: String, nearest: Option<&'static str> },
    #[error("{}", wrong_value(origin, key, shown.as_deref(), expected))]
    Value {
        origin: Origin,
        key: &'static str,
        /// `None` if the value is secret.
        shown: Option<String>,
        expected: &'static str,
    },
    /// The target of a reference in the value does not exist.
    #[error("{origin}: `{key}`: {message}")]
    Reference { origin: Origin, key: &'static str, message: String },
    #[error("no data folder: set --data-dir or {}, or HOME", env::DATA_DIR.name)]
    NoDataDir,
}

impl Problem {
    /// The file and line, the variable or the flag that contains the error.
    #[must_use]
    pub fn origin(&self) -> Option<Origin> {
        match self {
            Self::Syntax { path, line, .. } | Self::UnknownKey { path, line, .. } => {
                Some(Origin::File { path: path.clone(), line: *line })
            }
            Self::Value { origin, .. } | Self::Reference { origin, .. } => Some(origin.clone()),
            Self::Read { .. } | Self::NoDataDir => None,
        }
    }

    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { key, .. } => Some(key),
            Self::Value { key, .. } | Self::Reference { key, .. } => Some(key),
            Self::Read { .. } | Self::Syntax { .. } | Self::NoDataDir => None,
        }
    }

    /// Sort key: errors in the file by line, then all others.
    pub(super) fn line(&self) -> usize {
        match self.origin() {
            Some(Origin::File { line, .. }) => line,
            _ => usize::MAX,
        }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; `plexus config default` lists all keys".to_owned(),
        |name| format!(", did you mean `{name}`?"),
    )
}

fn wrong_value(origin: &Origin, key: &str, shown: Option<&str>, expected: &str) -> String {
    // The name of a variable or flag already identifies the setting.
    let place = match origin {
        Origin::File { .. } | Origin::Default => format!("{origin}: `{key}`"),
        Origin::Variable(_) | Origin::Flag(_) => origin.to_string(),
    };
    let shown = shown.unwrap_or("its value");
    format!("{place}: {shown} is not {expected}")
}

/// All errors of a configuration, not only the first.
#[derive(Debug, thiserror::Error)]
#[error("{}", summary(problems))]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
    /// Settings that work but should be changed.
    pub warnings: Vec<String>,
}

fn summary(problems: &[Problem]) -> String {
    match problems {
        [only] => only.to_string(),
        _ => {
            let lines: Vec<_> = problems.iter().map(|problem| format!("\n  - {problem}")).collect();
            format!("the configuration has {} problems:{}", problems.len(), lines.concat())
        }
    }
}
