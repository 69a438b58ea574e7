//! MCP towards servers: the hub, or a node, as a client of the servers that a person has configured.
//!
//! - [`config`]: one file per server, checked and with its references filled in;
//! - [`client`]: a connection to one server, whatever its transport and protocol era;
//! - [`oauth`]: access to a server that requires a login;
//! - [`Upstreams`]: keeps each server running on its own, and its tools in the registry;
//! - `trust`: which of the texts that servers send may be read by models.
//!
//! The MCP endpoint that clients of the hub connect to is `plexus-mcp`. It does not know this crate: it is given
//! [`Upstreams`] as its [`OfferProvider`](plexus_mcp::offers::OfferProvider).

pub mod client;
pub mod config;
pub mod oauth;
mod supervision;
mod trust;

pub use supervision::{ApproveError, Jitter, Timing, UpstreamOptions, Upstreams, hosted, try_out};
pub use trust::APPROVE;
