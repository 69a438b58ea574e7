//! What runs on a user's machine: the link to the hub, and the tools of the machine.
//!
//! A [`Node`] has a store, a registry and a dispatcher of its own, as a hub has; what it has not are doors. Calls come
//! over a [`link`] that the node dials, and their results go back over it, or over a later one: what is to be kept is
//! on the node's disk before it is begun, and until the hub has its result.

mod calls;
mod capabilities;
mod conversation;
mod credential;
mod dial;
mod error;
mod files;
mod hosted;
mod hub;
pub mod launch;
pub mod link;
mod machine;
mod node;
mod options;
mod outbox;
pub mod policy;
mod process_stat;
pub mod proxy;
mod retention;
pub mod runner;
pub mod tools;
mod warden;

pub use conversation::Served;
pub use credential::Credential;
pub use dial::{Dialler, Jitter, Transport};
pub use error::NodeError;
pub use hub::{Hub, HubError};
pub use machine::Machine;
pub use node::Node;
pub use options::{NodeLimits, NodeOptions};
