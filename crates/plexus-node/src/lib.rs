//! A machine that is linked to a hub.
//!
//! A [`Node`] has a store, a registry and a dispatcher of its own, as a hub has, but accepts no connections. Calls come over a
//! [`link`] that the node dials, and their results go back over it or over a later one. A call with an effect is on the node's
//! disk before it begins, and its result stays there until the hub has it. The tools that run are those of `plexus-machine`.

mod calls;
mod capabilities;
mod conversation;
mod credential;
mod dial;
mod error;
pub mod external_agents;
mod hosted;
mod hub;
pub mod link;
mod node;
mod options;
mod outbox;
mod retention;

pub use conversation::Served;
pub use credential::Credential;
pub use dial::{Dialler, Jitter, Transport};
pub use error::NodeError;
pub use hub::{Hub, HubError};
pub use node::Node;
pub use options::{NodeLimits, NodeOptions};
