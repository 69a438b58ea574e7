//! The MCP client side: a hub or a node connects to the configured MCP servers.
//!
//! - [`config`]: one file per server, validated and with its references resolved;
//! - [`client`]: a connection to one server, for every transport and protocol era;
//! - [`oauth`]: access to servers that require a login;
//! - [`Upstreams`]: keeps each server running independently and its tools in the registry;
//! - `trust`: decides which texts of a server models may read.
//!
//! The MCP endpoint that clients of the hub connect to is `plexus-mcp`. That crate does not depend on this
//! one; it receives [`Upstreams`] as its [`OfferProvider`](plexus_mcp::offers::OfferProvider).

pub mod client;
pub mod config;
pub mod oauth;
mod supervision;
mod trust;

pub use supervision::{ApproveError, Jitter, Timing, UpstreamOptions, Upstreams, hosted, try_out};
pub use trust::APPROVE;
