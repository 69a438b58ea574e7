//! The client side of MCP: every server a person has, behind the hub.
//!
//! - [`config`]: one file per server, checked and with its references filled in;
//! - [`client`]: a connection to one server, whatever its transport and era;
//! - [`oauth`]: access to a server that wants to know who the hub is;
//! - [`Upstreams`]: keeps each server running on its own, and its tools in the registry;
//! - `offers`: what servers offer beside their tools, and which of them a URI or a name is of;
//! - `trust`: which of the things that servers say may be read by models.

pub mod client;
pub mod config;
pub mod oauth;
mod offers;
mod supervision;
mod trust;

pub(crate) use offers::{Seen, server_uri};
pub use supervision::{ApproveError, Jitter, Timing, UpstreamOptions, Upstreams, hosted, try_out};
pub(crate) use supervision::{Mailbox, Watch};
pub use trust::APPROVE;
