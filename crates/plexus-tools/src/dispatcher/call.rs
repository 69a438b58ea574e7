//! A call: the request, the running call and its reply.

use std::fmt;
use std::time::Duration;

use plexus_kit::RunToCompletion;
use plexus_kit::trace::ReceivedContexts;
use plexus_proto::{CallId, SessionId, Timestamp};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{CallError, EventSink, LogSink, ProgressSink, RawJson, SessionKey, SharedAsk, ToolOutput};

/// The interface through which a call arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Mcp,
    Rest,
    /// The link of a node: a hub runs a tool on this machine.
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

/// The kind of thing that a call addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CallKind {
    #[default]
    Tool,
    /// A server's resources.
    Resources,
    /// A server's prompts.
    Prompts,
}

/// A requested call.
pub struct Call {
    /// The id under which another process has already recorded the call.
    pub call_id: Option<CallId>,
    pub kind: CallKind,
    /// The name of a tool, or the name under which a server offers resources or prompts.
    pub tool: String,
    /// An object, or null for no arguments.
    pub arguments: Value,
    pub session: SessionKey,
    pub idempotency_key: Option<String>,
    /// The time of the original request, if the call was queued on its way. Ignored without an idempotency key.
    pub occurred_at: Option<Timestamp>,
    pub via: Via,
    /// Cancelled by the caller when it no longer wants the result.
    pub cancel: CancellationToken,
    pub progress: Option<ProgressSink>,
    /// Receives the events of the running call. Without a sink they go to the session's log and, as progress, to the
    /// caller.
    pub events: Option<EventSink>,
    /// The longest time that the caller waits; shortens the tool's own limit.
    pub deadline: Option<Duration>,
    /// Forwards questions to the caller, if the caller can answer any.
    pub asker: Option<SharedAsk>,
    pub log: Option<LogSink>,
    /// Answers that the caller sent along with the call, before any question: an object.
    pub inputs: Option<RawJson>,
    /// The trace that the caller states as this call's parent.
    pub trace: ReceivedContexts,
    /// Dropped when the call has ended, also if the caller has disconnected.
    pub until_end: Option<Box<dyn Send + Sync>>,
}

impl Call {
    /// A call of a tool with default options: no idempotency key, no deadline of its own, and nothing reported while it
    /// runs.
    #[must_use]
    pub fn new(tool: impl Into<String>, arguments: Value, session: SessionKey, via: Via) -> Self {
        Self {
            call_id: None,
            kind: CallKind::Tool,
            tool: tool.into(),
            arguments,
            session,
            idempotency_key: None,
            occurred_at: None,
            via,
            cancel: CancellationToken::new(),
            progress: None,
            events: None,
            deadline: None,
            asker: None,
            log: None,
            inputs: None,
            trace: ReceivedContexts::default(),
            until_end: None,
        }
    }

    #[must_use]
    pub fn with_call_id(self, call_id: CallId) -> Self {
        Self { call_id: Some(call_id), ..self }
    }

    #[must_use]
    pub fn with_kind(self, kind: CallKind) -> Self {
        Self { kind, ..self }
    }

    #[must_use]
    pub fn with_idempotency_key(self, idempotency_key: Option<String>) -> Self {
        Self { idempotency_key, ..self }
    }

    #[must_use]
    pub fn with_occurred_at(self, occurred_at: Option<Timestamp>) -> Self {
        Self { occurred_at, ..self }
    }

    #[must_use]
    pub fn with_cancel(self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self }
    }

    #[must_use]
    pub fn with_progress(self, progress: ProgressSink) -> Self {
        Self { progress: Some(progress), ..self }
    }

    #[must_use]
    pub fn with_events(self, events: EventSink) -> Self {
        Self { events: Some(events), ..self }
    }

    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    #[must_use]
    pub fn with_trace(self, trace: ReceivedContexts) -> Self {
        Self { trace, ..self }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("tool", &self.tool)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// A call in flight.
#[derive(Debug)]
pub struct PendingCall {
    pub call_id: CallId,
    pub reply: RunToCompletion<CallReply>,
}

/// The reply to a call that has ended.
#[derive(Debug, Clone)]
pub struct CallReply {
    pub call_id: CallId,
    /// None only if the database could not be reached.
    pub session_id: Option<SessionId>,
    /// The canonical name, or the requested name if no such tool exists.
    pub tool: String,
    /// The result is that of an earlier call with the same key.
    pub replayed: bool,
    pub result: Result<ToolOutput, CallError>,
}
