//! MCP towards clients.
//!
//! - [`server`]: serves the hub's tools over Streamable HTTP in every published revision, on one URL. It is not built
//!   on an SDK's server because `tools/list` and `tools/call` are the hot path, one revision requires JSON-RPC
//!   batches, another requires headers that match the body, and each defines its own errors;
//! - [`offers`]: resources and prompts of the servers behind the hub, and the endpoint's interface to these servers;
//! - [`relay`]: support for a proxy between a client and the hub.
//!
//! Shared with the client side, `plexus-upstream`:
//!
//! - [`version`]: the published revisions;
//! - [`param_headers`]: arguments that are repeated in headers;
//! - [`http_client`] and [`tls`]: outgoing HTTP connections.

pub mod http_client;
pub mod offers;
pub mod param_headers;
pub mod relay;
pub mod server;
pub mod tls;
pub mod version;
