//! The machines that tools run on: who there is, who is up, and the way of a call to one of them and back.
//!
//! Each machine is a [`unit`]: what is known of it, its link while it has one, and the calls that were sent to it or wait
//! for it. The unit is the one place that decides what becomes of a call; a link only carries frames. In it always holds:
//!
//! - A call is in the table of the machine that it was sent to, from before it is sent until its end is committed. What
//!   another machine says of it, or a link that was replaced, changes nothing.
//! - A call that the machine may have accepted is never sent to it as a new one.
//! - A result is confirmed after it was committed and not before.

mod call;
mod events;
mod gateway;
pub(crate) mod link;
mod local;
mod metrics;
mod options;
pub(crate) mod tools;
mod unit;

/// Who calls what only the hub itself calls: it has no token.
pub(crate) const HUB: &str = "admin:hub";

pub(crate) use call::{Conclude, EventSink, OutgoingCall, Undelivered};
pub(crate) use gateway::Gateway;
pub(crate) use local::LocalNode;
pub use options::NodeOptions;
