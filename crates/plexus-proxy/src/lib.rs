//! The agent's side of a connection to the hub.
//!
//! The [`Proxy`] runs between one agent and the hub: it holds the agent's token, and stores writes in an outbox on
//! disk while the hub is away. The [`runner`] starts agents that reach the hub through such a proxy.

mod proxy;
pub mod runner;

pub use proxy::{
    CredentialSource, Endpoint, FindAdminToken, GrantedCredential, OUTBOX_FILE, Proxy, ProxyError,
    ProxyOptions, SaveToken, Timing, proxy_folder,
};
