//! Edits the files of other agents: their configuration and their instructions.
//!
//! - Nothing is damaged: a file is read, the change is planned and shown, a backup is stored, and the new file
//!   replaces the old one atomically. Unknown content stays byte for byte.
//! - Every insertion can be removed again. Inserted content that a person has changed since is a conflict and is
//!   never overwritten.
//! - Only known files of an agent are edited, below the agent's own folders, and symlinks are not followed.
//!
//! This crate has no SQL, no HTTP and no tasks: callers pass the time and call from a thread that may block on the
//! disk.

mod agent_manager;
pub mod agents;
mod block;
mod bridge;
mod bundle;
mod confined_path;
pub mod document;
mod entry;
mod error;
mod grant;
mod ledger;
mod moved_server;
mod recovery;
mod replace;
mod status;

pub use agent_manager::{AgentManager, MAX_INSTRUCTION_BYTES, MAX_INSTRUCTION_FILES, RemovedConnection};
pub use bridge::{
    AgentServers, Bridge, Change, FOLDER, InstructionContent, Plan, ProxyCommand, SERVER, SyncResult,
};
pub use bundle::Bundle;
pub use confined_path::{ConfinedPath, FileContent};
pub use entry::ConflictPolicy;
pub use error::BridgeError;
pub use grant::{Grant, Grants};
pub use ledger::{Backup, Connection, FileProblem, FileRecord, Ledger, ManagedPart};
pub use moved_server::MovedServer;
pub use replace::{NoStepObserver, StepObserver};
