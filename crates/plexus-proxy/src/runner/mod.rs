//! Runs an agent of someone else: wired to the hub, on the terminal it was started from, and with nothing left of it at
//! the end.
//!
//! - What an agent is given is added to what it has: arguments before those of the user, variables, and files in the
//!   [`scratch`](Scratch) folder of the run. No file of the user's is written, and no argument or file holds a secret: they
//!   name a variable, which has a name of its own in every run.
//! - A run is a folder: who runs, as which process, with which token, and what of it the hub has not heard yet. As long as
//!   its runner lives, it holds the lock in there; a folder without a holder is one of a runner that died.
//! - A process is the one that is meant when its number, the moment it was born and the boot of the machine agree.
//!   Nothing else is ever signalled.

mod agent;
mod ending;
mod inject;
mod process;
mod record;
mod scratch;
mod supervise;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(not(target_os = "linux"))]
#[path = "no_terminal.rs"]
mod terminal;
mod thread;

pub use agent::AgentKind;
pub use ending::Ending;
pub use inject::{Conversation, Injected, Wires, Wiring, choose, has_begun, inject};
pub use process::ProcessId;
pub use record::{Record, RunEvent, RunState, Via};
pub use scratch::{Runs, Scratch};
pub use supervise::{Agent, Launch, Signals};
pub use thread::{codex_thread, ended_codex_thread};

/// A number that nobody can guess, for names of runs and of their variables.
#[must_use]
pub fn random() -> u32 {
    rand::random()
}
