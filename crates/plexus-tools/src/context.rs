//! The context of a running call, as its handler sees it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_auth::Principal;
use plexus_kit::{Clock, TraceContext};
use plexus_proto::{CallId, ErrorCode, SessionId, node};
use plexus_store::Store;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::ask::{Answers, AskError, Capabilities, LogSink, MAX_QUESTIONS, Question, SharedAsk};
use crate::dispatcher::{Deadline, NodeDelivery};
use crate::emit::Emitter;
use crate::nodes::NodeEntry;
use crate::sessions::SessionDirectory;
use crate::{CallError, RawJson, Tool, Visible};

/// The progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Receives progress. Must not block; a sink that cannot keep up drops values.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// Why a session is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    Read,
    Write,
}

#[derive(Clone)]
pub struct ToolContext {
    pub call_id: CallId,
    pub principal: Arc<Principal>,
    /// The session of the calling client.
    pub session_id: SessionId,
    pub visible: Arc<Visible>,
    pub store: Store,
    pub clock: Clock,
    /// Cancelled when the caller cancels or the deadline passes.
    pub cancel: CancellationToken,
    /// The node selected for the call.
    pub node: Option<NodeEntry>,
    pub(crate) tool: Arc<Tool>,
    /// How long the call may take.
    pub(crate) allowed: Duration,
    /// Set if the call runs on a node.
    pub(crate) delivery: Option<Arc<NodeDelivery>>,
    pub(crate) emitter: Emitter,
    pub(crate) progress: Option<ProgressSink>,
    pub(crate) asker: Option<SharedAsk>,
    pub(crate) log: Option<LogSink>,
    pub(crate) inputs: Option<RawJson>,
    /// Set if the caller can be asked questions.
    pub(crate) deadline: Option<Arc<Deadline>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) sessions: Arc<SessionDirectory>,
}

impl ToolContext {
    /// Reports progress to the caller, if it asked for progress.
    pub fn progress(&self, progress: Progress) {
        if let Some(sink) = &self.progress {
            sink(progress);
        }
    }

    /// Emits an event of the running call, an object of a kind such as `terminal_output`; the call's id and the node's
    /// name are added. Never blocks; returns false if the event was dropped.
    pub fn emit(&self, kind: &str, payload: Map<String, Value>) -> bool {
        self.emitter.emit(kind, payload)
    }

    /// The frame that sends this call to its node: with the tool's name there and the time left now.
    pub fn to_node(&self, arguments: &Value) -> Result<node::Call, CallError> {
        let (Some(_), Some(delivery)) = (&self.node, &self.delivery) else {
            return Err(CallError::new(
                ErrorCode::Internal,
                "a call without a node was about to be sent to one",
            ));
        };
        let arguments = serde_json::value::to_raw_value(arguments)
            .map_err(|e| CallError::new(ErrorCode::Internal, format!("the arguments cannot be sent: {e}")))?;
        Ok(node::Call {
            call_id: self.call_id,
            tool: self.tool.name_on_server().to_owned(),
            arguments,
            session_id: self.session_id,
            caller: node::Caller {
                subject: self.principal.subject().to_owned(),
                profile: self.principal.profile().map(str::to_owned),
            },
            deadline_ms: delivery.time_left_ms(),
            keep: delivery.keep,
            idempotency_key: delivery.key.clone(),
            traceparent: self.trace.as_ref().map(|trace| trace.traceparent().to_owned()),
        })
    }

    /// Whether the call waits for its node if that is offline.
    #[must_use]
    pub fn waits_for_node(&self) -> bool {
        self.delivery.as_ref().is_some_and(|delivery| delivery.waits)
    }

    /// Marks the call as sent to its node: its deadline starts now, and it may run.
    pub fn sent(&self) {
        if let Some(delivery) = &self.delivery {
            delivery.sent();
        }
    }

    /// The time left for a call on a node.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.delivery.as_ref().map(|delivery| delivery.time_left())
    }

    /// The progress sink, for a tool that forwards progress of others; none if the caller did not ask for progress.
    #[must_use]
    pub fn progress_sink(&self) -> Option<ProgressSink> {
        self.progress.clone()
    }

    /// Asks the caller and waits for all answers. The deadline of the call is paused meanwhile.
    pub async fn ask(&self, questions: Vec<Question>) -> Result<Answers, AskError> {
        let can = self.capabilities();
        let lacking = questions.iter().filter_map(|question| can.lacks(question)).reduce(Capabilities::and);
        if let Some(lacking) = lacking {
            return Err(AskError::Incapable(lacking));
        }
        let Some(asker) = &self.asker else { return Err(AskError::Gone) };
        if questions.len() > MAX_QUESTIONS {
            return Err(AskError::TooMany("more questions at once than the hub forwards"));
        }
        let _thinking = self.deadline.as_ref().map(|deadline| deadline.pause());
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {
                // The dispatcher sees the cancellation first and ignores how the tool handles this error.
                tokio::task::yield_now().await;
                Err(AskError::Gone)
            }
            answers = asker.ask(questions) => answers,
        }
    }

    /// The kinds of questions that the caller can answer.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.asker.as_ref().map(|asker| asker.capabilities()).unwrap_or_default()
    }

    /// The sink for log lines of other servers, if the caller wants them.
    #[must_use]
    pub fn log_sink(&self) -> Option<LogSink> {
        self.log.clone()
    }

    /// Answers that the caller sent along with the call, an object.
    #[must_use]
    pub fn inputs(&self) -> Option<&RawJson> {
        self.inputs.as_ref()
    }

    /// The trace context of this call, for `_meta` or the headers of requests that the tool makes.
    #[must_use]
    pub fn trace_context(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// The session a tool works on: the one named in its arguments, else the caller's. Only a write creates a missing
    /// session.
    pub async fn target_session(&self, named: Option<&str>, intent: Intent) -> Result<SessionId, CallError> {
        match named {
            None => Ok(self.session_id),
            Some(name) => self.sessions.named(&self.principal, name, intent).await,
        }
    }

    /// The folder for files of a session, created on first use.
    pub fn files_dir(&self, session: SessionId) -> std::io::Result<PathBuf> {
        self.sessions.files_dir(session)
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("principal", &self.principal.subject())
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}
