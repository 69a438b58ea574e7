//! A call: as it is asked for, while it is seen through, and as it ended.

use std::fmt;
use std::time::Duration;

use plexus_kit::SeeThrough;
use plexus_kit::trace::Incoming;
use plexus_proto::{CallId, SessionId, Timestamp};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{CallError, EventSink, LogSink, ProgressSink, RawJson, SessionKey, SharedAsk, ToolOutput};

/// Through which door a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Mcp,
    Rest,
    /// The link of a node: a hub has it run a tool here.
    Link,
}

impl Via {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Rest => "rest",
            Self::Link => "link",
        }
    }
}

/// What a call is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CallKind {
    #[default]
    Tool,
    /// Of a server's resources.
    Resources,
    /// Of a server's prompts.
    Prompts,
}

/// A call, as asked for.
pub struct Call {
    /// The one that it has already, where somebody else has recorded it.
    pub call_id: Option<CallId>,
    pub kind: CallKind,
    /// Name of a tool, or of what a server has resources or prompts under.
    pub tool: String,
    /// An object, or null for none.
    pub arguments: Value,
    pub session: SessionKey,
    pub idempotency_key: Option<String>,
    /// When it was first asked for, where it was kept on its way since. Counts with a key only.
    pub occurred_at: Option<Timestamp>,
    pub via: Via,
    /// Cancelled by the caller when it no longer wants the result.
    pub cancel: CancellationToken,
    pub progress: Option<ProgressSink>,
    /// Where what it tells while it runs goes; without one, into the log of its session and to the caller as progress.
    pub events: Option<EventSink>,
    /// What it may take at most, where its caller waits no longer than that.
    pub deadline: Option<Duration>,
    /// Whom to ask, if the caller can be asked.
    pub asker: Option<SharedAsk>,
    pub log: Option<LogSink>,
    /// Answers that came with the call, before anything was asked: an object.
    pub inputs: Option<RawJson>,
    /// The trace that the caller says this is part of.
    pub trace: Incoming,
    /// Dropped when the call has ended, also when nobody waits for it any more.
    pub until_end: Option<Box<dyn Send + Sync>>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("tool", &self.tool)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// A call that is seen through.
#[derive(Debug)]
pub struct Begun {
    pub call_id: CallId,
    pub reply: SeeThrough<CallReply>,
}

/// A call, as it ended.
#[derive(Debug, Clone)]
pub struct CallReply {
    pub call_id: CallId,
    /// None only when the database could not be reached.
    pub session_id: Option<SessionId>,
    /// Canonical name, or what was asked for if there is no such tool.
    pub tool: String,
    /// The result is that of an earlier call with the same key.
    pub replayed: bool,
    pub result: Result<ToolOutput, CallError>,
}
