//! How an agent has exited.

use serde::{Deserialize, Serialize};

/// Signals by which a user, a shell or the system ends a program on purpose: HUP, INT, QUIT, PIPE and TERM.
const INTENTIONAL_SIGNALS: [i32; 5] = [1, 2, 3, 13, 15];
/// Offset of a signal number in an exit code.
const SIGNAL_OFFSET: i32 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentExit {
    Code(i32),
    Signal(i32),
}

impl AgentExit {
    /// The runner's exit code: that of the agent, or 128 plus the number of the signal.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => SIGNAL_OFFSET + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(1)
    }

    /// Whether the agent crashed: it was ended by a signal that is not used on purpose, or by a code with which a
    /// shell or launcher reports one.
    #[must_use]
    pub fn is_crash(self) -> bool {
        match self {
            Self::Signal(signal) => !INTENTIONAL_SIGNALS.contains(&signal),
            Self::Code(code) => {
                code >= SIGNAL_OFFSET && !INTENTIONAL_SIGNALS.contains(&(code - SIGNAL_OFFSET))
            }
        }
    }
}

impl std::fmt::Display for AgentExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests;
