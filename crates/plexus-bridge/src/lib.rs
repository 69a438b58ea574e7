//! Files of other agents: their configuration and their instructions.
//!
//! - Nothing is damaged: a file is read, the change is planned and shown, a copy is kept, and the new file takes the place of
//!   the old one in one step. What nobody here knows of stays as it was written.
//! - What was put in can be taken out, and what a person has changed since is a conflict and never overwritten.
//! - Only files that an agent is known to have are touched, below folders that are its own, and no link is followed.
//!
//! There is no SQL, no HTTP and no task in here: callers bring the moment, and a thread that may wait for the disk.

pub mod agents;
mod block;
mod bridge;
mod bundle;
pub mod document;
mod entry;
mod error;
mod grant;
mod keeper;
mod ledger;
mod moved;
mod place;
mod recovery;
mod replace;
mod status;

pub use bridge::{Bridge, Change, Content, FOLDER, Plan, SERVER, Servers, Synced, Wiring};
pub use bundle::Bundle;
pub use entry::Policy;
pub use error::BridgeError;
pub use grant::{Grant, Grants};
pub use keeper::{Keeper, MOST_BYTES, MOST_FILES, Removed};
pub use ledger::{Backup, Connection, Ledger, Part, Record, Trouble};
pub use moved::Moved;
pub use place::{Found, Place};
pub use replace::{Steps, Unwatched};
