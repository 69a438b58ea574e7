//! MCP messages as a client sends and receives them.
//!
//! All transports build and parse their messages here. An outgoing message is one JSON text without line
//! breaks; an incoming one is parsed only as far as routing requires, and [`answer`](super::answer) parses
//! the results.

mod incoming;
mod outgoing;

pub(super) use incoming::{
    Incoming, Messages, cancelled_request, hub_request_id, log_line, progress, rpc_error, server_change,
    subscription,
};
pub(super) use outgoing::{
    RequestMeta, answer, call, cancelled, discover, initialize, initialized, list, listen, ping, request,
};

/// JSON-RPC error code: method not found.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// The id of the hub's own request: unique on its connection, and also its progress token.
pub(super) type RequestId = u64;

#[cfg(test)]
mod tests;
