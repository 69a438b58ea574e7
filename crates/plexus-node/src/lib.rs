//! A machine that is linked to a hub.
//!
//! Like a hub, a [`Node`] has its own store, registry and dispatcher, but it accepts no connections. Calls arrive
//! over a [`link`] that the node dials, and their results return over it or a later one. A call with an effect is
//! stored on the node's disk before it starts, and its result stays there until the hub has confirmed it. The tools
//! are those of `plexus-machine`.

mod calls;
mod capabilities;
mod credential;
mod dial;
mod error;
pub mod external_agents;
mod frame_queue;
mod hosted;
mod hub_client;
pub mod link;
mod link_session;
mod node;
mod options;
mod retention;

pub use credential::Credential;
pub use dial::{Dialler, Jitter, Transport};
pub use error::NodeError;
pub use hub_client::{HubClient, HubError};
pub use link_session::LinkSummary;
pub use node::Node;
pub use options::{NodeLimits, NodeOptions};
