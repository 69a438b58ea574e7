//! Support for a proxy between a client and the hub: a client of the hub, parsed messages, and the hub's own results
//! for when the hub is unreachable.
//!
//! The proxy passes most of MCP on unchanged. It only distinguishes the client's revision and the members of a tool
//! that this revision has.

mod hub;
mod request;
mod results;
mod tools;

pub use hub::{HubClient, HubMessage, HubReply, HubRequestError};
pub use request::{StatelessRequest, check, client_info, headers, is_modern, message_headers};
pub use results::{
    call_result, discover_result, initialize_result, subscription_acknowledged, subscription_notification,
    tool_list_result,
};
pub use tools::{add_argument_headers, remove_unsupported_members};

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
