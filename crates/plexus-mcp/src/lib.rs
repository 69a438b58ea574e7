//! MCP towards clients.
//!
//! - [`server`]: serves the tools of the hub over Streamable HTTP in every published revision, on one URL. It is written
//!   by hand and not on top of an SDK's server: `tools/list` and `tools/call` are the hot path, one revision wants
//!   JSON-RPC batches, another wants headers compared with the body, and each wants its own errors;
//! - [`offers`]: resources and prompts of the servers behind the hub, and the interface that the endpoint reaches these
//!   servers through;
//! - [`relay`]: what a proxy needs that stands between a client and the hub.
//!
//! Shared with the client side, `plexus-upstream`:
//!
//! - [`version`]: the published revisions;
//! - [`param_headers`]: arguments that are repeated in headers;
//! - [`http_client`] and [`tls`]: HTTP connections that this machine opens.

pub mod http_client;
pub mod offers;
pub mod param_headers;
pub mod relay;
pub mod server;
pub mod tls;
pub mod version;
