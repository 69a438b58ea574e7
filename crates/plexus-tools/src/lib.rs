//! Tools and the dispatcher, the only path to them.
//!
//! [`Dispatcher::call`] resolves the name among the tools visible to the caller, validates the arguments, checks the
//! idempotency key, takes a concurrency slot, executes under a deadline and records the call, in this order. Looking up
//! an unauthorized tool and a missing one takes the same code path and gives the same error.

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
    Answer, Answers, Ask, AskError, Capabilities, Inquiry, LogLevel, LogLine, LogSink, MAX_QUESTIONS,
    Question, SharedAsk,
};
pub use context::{Intent, Progress, ProgressSink, ToolContext};
pub use cost::{InstructionPart, cost};
pub use dispatcher::{
    Call, CallKind, CallReply, Dispatcher, DispatcherOptions, PendingCall, Via, request_digest,
};
pub use emit::EventSink;
pub use error::{CallError, RpcCause};
pub use handler::{Outcome, Run, Tool, Transaction, TypedTool};
pub use output::{ForeignOutput, RawJson, ToolOutput};
/// Used by nodes to create a principal for each call from their hub: [`Principal::relayed`].
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
