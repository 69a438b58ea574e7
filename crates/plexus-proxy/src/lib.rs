//! The agent's side of a connection to the hub.
//!
//! The [`Proxy`] stands between one agent and the hub: it holds the agent's token, and keeps writes in an outbox on disk while
//! the hub is away. The [`runner`] starts agents that are wired to the hub through such a proxy.

mod proxy;
pub mod runner;

pub use proxy::{
    Endpoint, FindAdmin, First, Granted, Keep, OUTBOX_FILE, Proxy, ProxyError, ProxyOptions, Timing, folder,
};
