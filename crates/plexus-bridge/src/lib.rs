//! Edits the files of other agents: their configuration and their instructions.
//!
//! - Nothing is damaged: a file is read, the change is planned and shown, a backup is stored, and the new file replaces the old one
//!   atomically. Unknown content stays byte for byte.
//! - Every insertion can be removed again. Inserted content that a person has changed since is a conflict and is never overwritten.
//! - Only known files of an agent are edited, below the agent's own folders, and symlinks are not followed.
//!
//! This crate has no SQL, no HTTP and no tasks: callers pass the time and call from a thread that may block on the disk.

pub mod agents;
mod block;
mod bridge;
mod bundle;
mod confined_path;
pub mod document;
mod entry;
mod error;
mod grant;
mod keeper;
mod ledger;
mod moved;
mod recovery;
mod replace;
mod status;

pub use bridge::{Bridge, Change, Content, FOLDER, Plan, SERVER, Servers, Synced, Wiring};
pub use bundle::Bundle;
pub use confined_path::{ConfinedPath, FileContent};
pub use entry::Policy;
pub use error::BridgeError;
pub use grant::{Grant, Grants};
pub use keeper::{Keeper, MOST_BYTES, MOST_FILES, Removed};
pub use ledger::{Backup, Connection, Ledger, Part, Record, Trouble};
pub use moved::Moved;
pub use replace::{Steps, Unwatched};
