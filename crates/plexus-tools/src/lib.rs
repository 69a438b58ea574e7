//! Tools, and the one way to call them.
//!
//! [`Dispatcher::call`] is the only path to a tool. In this order it resolves the name within what
//! the caller may see, validates arguments, looks for an earlier result, takes a place among the
//! caller's running calls, executes under a deadline, and records what happened. A tool that the
//! caller may not use is not found by the same code that does not find one that does not exist.

pub mod alias;
pub mod arguments;
mod ask;
mod context;
mod cost;
pub mod custom;
mod dispatcher;
mod emit;
mod error;
pub mod file_schema;
mod handler;
mod listing;
pub mod native;
pub mod nodes;
pub mod outcome;
mod output;
mod profile_view;
mod queued;
mod redact;
mod registry;
mod resolve;
mod schema;
mod sessions;
mod spec;
mod tokens;
mod visible;

pub use alias::Alias;
pub use ask::{
    Answer, Answers, Ask, Capabilities, Inquiry, LogLevel, LogLine, LogSink, MAX_QUESTIONS, Question,
    SharedAsk, Unasked,
};
pub use context::{Intent, Progress, ProgressSink, ToolContext};
pub use cost::{Said, cost};
pub use dispatcher::{Begun, Call, CallKind, CallReply, Dispatcher, DispatcherOptions, Via, request_digest};
pub use emit::EventSink;
pub use error::{CallError, RpcCause};
pub use handler::{Outcome, Run, Tool, Transaction, TypedTool};
pub use output::{ForeignOutput, RawJson, ToolOutput};
/// For nodes, which make one of each call that their hub sends: [`Principal::relayed`].
pub use plexus_auth::Principal;
pub use queued::QueuedWrite;
pub use redact::text as redacted;
pub use registry::Registry;
pub use sessions::SessionKey;
pub use spec::{
    Access, Action, Buffered, Facility, Handling, Host, Placement, TimeArgument, ToolSpec, UpstreamTool,
};
pub use tokens::{TOKENIZER, TokenCounter};
pub use visible::{Visible, nearest};
