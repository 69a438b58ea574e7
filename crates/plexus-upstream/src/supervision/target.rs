//! What a server is to be, as its file has it; the unit brings it about.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{Entry, ServerConfig, Transport};

/// A wish, and how it is told that it was fulfilled: the unit repeats the number of the newest one it has acted on.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) turn: u64,
    /// Grows when the server is to be started anew whatever its file says.
    pub(super) restarts: u64,
    pub(super) target: Target,
}

#[derive(Debug, Clone)]
pub(super) enum Target {
    Run(Arc<ServerConfig>),
    Off(Arc<ServerConfig>),
    /// The file is wrong.
    Wrong {
        file: PathBuf,
        message: Arc<str>,
    },
    /// There is no file any more.
    Gone,
}

impl Target {
    pub(super) fn of(entry: Entry) -> Self {
        match entry.server {
            Ok(config) if config.enabled => Self::Run(Arc::new(config)),
            Ok(config) => Self::Off(Arc::new(config)),
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                Self::Wrong { file: entry.file, message: problems.join("\n").into() }
            }
        }
    }

    pub(super) fn config(&self) -> Option<&Arc<ServerConfig>> {
        match self {
            Self::Run(config) | Self::Off(config) => Some(config),
            Self::Wrong { .. } | Self::Gone => None,
        }
    }

    /// Whether a unit that aims at this has anything to do when that is wanted.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Run(one), Self::Run(other)) => runs_on(one, other) && presented_alike(one, other),
            (Self::Off(one), Self::Off(other)) => presented_alike(one, other),
            (Self::Wrong { file, message }, Self::Wrong { file: other_file, message: other }) => {
                file == other_file && message == other
            }
            (Self::Gone, Self::Gone) => true,
            _ => false,
        }
    }
}

/// Whether a server that was started with one goes on with the other.
pub(super) fn runs_on(one: &ServerConfig, other: &ServerConfig) -> bool {
    one.fingerprint == other.fingerprint
}

/// Whether what the hub makes of the server is the same.
fn presented_alike(one: &ServerConfig, other: &ServerConfig) -> bool {
    // What others may do to a file is warned about, and changes without it.
    one.presentation == other.presentation && one.file == other.file && one.warnings == other.warnings
}

pub(super) fn is_process(config: &ServerConfig) -> bool {
    matches!(config.transport, Transport::Stdio(_))
}
