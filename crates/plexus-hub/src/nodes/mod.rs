//! The machines that tools run on: their registry, their state, and the path of a call to a machine and back.
//!
//! Each machine is a [`unit`]: its settings, its link while it has one, and the calls that were sent to it or are
//! queued for it. The unit alone decides the outcome of a call; a link only carries frames. Invariants:
//!
//! - A call is in the table of the machine that it was sent to, from before it is sent until its end is committed.
//!   Reports about it from another machine, or over a replaced link, have no effect.
//! - A call that the machine may have accepted is never sent to it as a new one.
//! - A result is acknowledged only after it was committed.

mod call;
mod events;
mod gateway;
pub(crate) mod link;
mod local;
mod metrics;
mod options;
pub(crate) mod tools;
mod unit;

/// Subject of calls that the hub itself makes without a token.
pub(crate) const HUB: &str = "admin:hub";

pub(crate) use call::{Conclude, EventSink, OutgoingCall, Undelivered};
pub(crate) use gateway::Gateway;
pub(crate) use local::LocalNode;
pub use options::NodeOptions;
