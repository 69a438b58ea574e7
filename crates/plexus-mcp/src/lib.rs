//! MCP for Plexus, in both directions.
//!
//! [`server`] serves the hub's tools over Streamable HTTP in every published revision, on one URL.
//! It is written by hand and not on top of an SDK's server: `tools/list` and `tools/call` are the
//! hot path, one revision wants JSON-RPC batches, another wants headers compared with the body, and
//! each wants its own errors. [`upstream`] is the other side: the servers that the hub is a client of. [`relay`] is what a
//! proxy needs that stands between a client and the hub. [`tls`] encrypts what is dialled.

mod marks;
pub mod relay;
pub mod server;
pub mod tls;
pub mod upstream;
