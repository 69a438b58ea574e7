//! How an agent ended.

use serde::{Deserialize, Serialize};

/// Signals by which a person, a shell or the system ends a program on purpose: HUP, INT, QUIT, PIPE and TERM.
const ON_PURPOSE: [i32; 5] = [1, 2, 3, 13, 15];
/// What is added to the number of a signal for the exit code.
const BY_SIGNAL: i32 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Code(i32),
    Signal(i32),
}

impl Ending {
    /// What the runner ends with: the code of the agent, or 128 and the number of the signal.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => BY_SIGNAL + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(1)
    }

    /// Whether it fell over: a signal that nobody sends to end a program, or a code by which a shell or a launcher tells of
    /// one.
    #[must_use]
    pub fn is_crash(self) -> bool {
        match self {
            Self::Signal(signal) => !ON_PURPOSE.contains(&signal),
            Self::Code(code) => code >= BY_SIGNAL && !ON_PURPOSE.contains(&(code - BY_SIGNAL)),
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ended_on_purpose_did_not_crash() {
        for (ending, code, crash) in [
            (Ending::Code(0), 0, false),
            (Ending::Code(3), 3, false),
            (Ending::Code(130), 130, false),
            (Ending::Code(139), 139, true),
            (Ending::Signal(2), 130, false),
            (Ending::Signal(15), 143, false),
            (Ending::Signal(9), 137, true),
            (Ending::Signal(11), 139, true),
        ] {
            assert_eq!((ending.exit_code(), ending.is_crash()), (code, crash), "{ending}");
        }
    }
}
