//! What a proxy needs that stands between a client and the hub: a line to the hub, messages taken apart, and the hub's own
//! words where it cannot be asked.
//!
//! The proxy passes on what it does not have to change, so most of MCP is not known here: which revision a client speaks,
//! and what of a tool that revision knows.

mod hub;
mod request;
mod tools;
mod words;

pub use hub::{HubLine, HubReply, Told, Unanswered};
pub use request::{Stateless, check, client_info, headers, is_modern, repeated_headers};
pub use tools::{fit, repeat_arguments};
pub use words::{acknowledged, called, discovered, initialized, listed, subscribed};

pub use crate::param_headers::header_text;
pub use crate::server::call::{IDEMPOTENCY_KEY, OCCURRED_AT};
pub use crate::server::identity::conversation;
pub use crate::server::list::{BUFFERABLE, PLACEMENT};
pub use crate::version::{Dialect, Version};

/// JSON-RPC.
pub mod rpc {
    pub use crate::server::rpc::{
        INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message, Notification,
        PARSE_ERROR, Params, Request, RpcError, check_depth, message, parse, parse_batch, result_json, text,
    };
}

/// Server-sent events.
pub mod sse {
    pub use crate::server::sse::{event, keep_alive, ticks};
}

/// The stateless revision.
pub const STATELESS: &str = crate::version::MODERN;
