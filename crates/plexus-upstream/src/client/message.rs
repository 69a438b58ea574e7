//! The messages of MCP as a client sends and receives them: bytes out, borrowed parts in.
//!
//! Every transport builds and reads its messages here. What is sent is one JSON text without a line break in it;
//! what comes in is taken apart only as far as it is needed to know whom it is for, and [`answer`](super::answer)
//! reads the results.

mod incoming;
mod outgoing;

pub(super) use incoming::{
    Incoming, Messages, cancelled_request, log_line, news, own, progress, rpc_error, subscription,
};
pub(super) use outgoing::{
    RequestMeta, answer, call, cancelled, discover, initialize, initialized, list, listen, ping, request,
};

/// Whoever is asked does not do that.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// Of a request of ours: unique on its connection, and its progress token too.
pub(super) type RequestId = u64;

#[cfg(test)]
mod tests;
