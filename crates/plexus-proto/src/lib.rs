//! The data types that the parts of Plexus exchange: ids, events, REST types, error codes.
//!
//! Data only. Nothing here does IO, depends on tokio or reads a clock, so every other crate, a node on
//! another machine and a generated client can share it.

pub mod api;
mod error;
mod event;
mod id;
pub mod node;
pub mod node_name;
mod stream;
pub mod tool_name;

pub use error::{ErrorCode, ErrorEnvelope};
pub use event::{Event, EventKind, NewEvent};
pub use id::{CallId, InvalidId, NodeId, SessionId, TokenId};
pub use jiff::Timestamp;
pub use stream::{StreamControl, StreamMessage, StreamResume, close_code};
