//! Runs a third-party agent on the current terminal, connected to the hub, and cleans up after it.
//!
//! - The configuration is added to the agent's own: arguments before those of the user, environment variables, and
//!   files in the [folder](RunFolder) of the run. No file of the user is written, and no argument or file contains a
//!   secret: they refer to an environment variable, whose name is different in every run.
//! - The folder of a run records the agent, its process and token, and the events that the hub does not have yet. Its
//!   runner holds a lock in it; a folder whose lock is free belongs to a runner that died.
//! - A process is identified by its id, its start time and the boot of the machine. No other process is ever signalled.

mod agent_exit;
mod agent_kind;
mod codex_thread;
mod inject;
mod process_id;
mod run_folder;
mod run_record;
mod running_agent;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(not(target_os = "linux"))]
#[path = "no_terminal.rs"]
mod terminal;

pub use agent_exit::AgentExit;
pub use agent_kind::AgentKind;
pub use codex_thread::{codex_thread, ended_codex_thread};
pub use inject::{
    AgentConversation, AgentSetup, HubAccess, InjectedConfig, can_resume, choose_conversation, inject,
};
pub use process_id::ProcessId;
pub use run_folder::{RunFolder, RunFolders};
pub use run_record::{HubRoute, RunEvent, RunRecord, RunState};
pub use running_agent::{AgentCommand, RunningAgent, Signals};

/// An unpredictable id, for names of runs and of their variables.
#[must_use]
pub fn random_id() -> u32 {
    rand::random()
}
