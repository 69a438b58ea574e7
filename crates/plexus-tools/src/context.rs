//! What a running tool knows about its call.

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

use crate::ask::{Answers, Capabilities, LogSink, MAX_QUESTIONS, Question, SharedAsk, Unasked};
use crate::dispatcher::{Deadline, NodeDelivery};
use crate::emit::Emitter;
use crate::nodes::NodeEntry;
use crate::sessions::SessionDirectory;
use crate::{CallError, RawJson, Tool, Visible};

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Where progress goes. It must not block; a sink that cannot keep up drops what it gets.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// What a session is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    Read,
    Write,
}

#[derive(Clone)]
pub struct ToolContext {
    pub call_id: CallId,
    pub principal: Arc<Principal>,
    /// Session of the client that calls.
    pub session_id: SessionId,
    pub visible: Arc<Visible>,
    pub store: Store,
    pub clock: Clock,
    /// Cancelled when the caller cancels or the deadline passes.
    pub cancel: CancellationToken,
    /// The machine that was chosen for the call.
    pub node: Option<NodeEntry>,
    pub(crate) tool: Arc<Tool>,
    /// How long the call may take.
    pub(crate) allowed: Duration,
    /// There where the call goes to a machine.
    pub(crate) delivery: Option<Arc<NodeDelivery>>,
    pub(crate) emitter: Emitter,
    pub(crate) progress: Option<ProgressSink>,
    pub(crate) asker: Option<SharedAsk>,
    pub(crate) log: Option<LogSink>,
    pub(crate) inputs: Option<RawJson>,
    /// There where there is somebody to ask.
    pub(crate) deadline: Option<Arc<Deadline>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) sessions: Arc<SessionDirectory>,
}

impl ToolContext {
    /// Tells the caller how far the call has come, if it asked.
    pub fn progress(&self, progress: Progress) {
        if let Some(sink) = &self.progress {
            sink(progress);
        }
    }

    /// Tells what happens while the call runs, an object of a kind such as `terminal_output`; the id of the call and the name
    /// of the machine are added. Waits for nothing: false when it was left out.
    pub fn emit(&self, kind: &str, payload: Map<String, Value>) -> bool {
        self.emitter.emit(kind, payload)
    }

    /// This call as it is sent to its machine, by the name that the tool has there. Its time is that which is left now.
    pub fn to_node(&self, arguments: &Value) -> Result<node::Call, CallError> {
        let (Some(_), Some(delivery)) = (&self.node, &self.delivery) else {
            return Err(CallError::new(
                ErrorCode::Internal,
                "a call that is for no machine was to be sent to one",
            ));
        };
        let arguments = serde_json::value::to_raw_value(arguments)
            .map_err(|e| CallError::new(ErrorCode::Internal, format!("the arguments cannot be sent: {e}")))?;
        Ok(node::Call {
            call_id: self.call_id,
            tool: self.tool.name_there().to_owned(),
            arguments,
            session_id: self.session_id,
            caller: node::Caller {
                subject: self.principal.subject().to_owned(),
                profile: self.principal.profile().map(str::to_owned),
            },
            deadline_ms: delivery.left_ms(),
            keep: delivery.keep,
            idempotency_key: delivery.key.clone(),
            traceparent: self.trace.as_ref().map(|trace| trace.traceparent().to_owned()),
        })
    }

    /// Whether the call waits for its machine if that is away.
    #[must_use]
    pub fn waits_for_node(&self) -> bool {
        self.delivery.as_ref().is_some_and(|delivery| delivery.waits)
    }

    /// The call is on its way to its machine: from here on its time counts, and it may run.
    pub fn sent(&self) {
        if let Some(delivery) = &self.delivery {
            delivery.sent();
        }
    }

    /// How long the call may still take, if it goes to a machine.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.delivery.as_ref().map(|delivery| delivery.left())
    }

    /// Where progress goes, for a tool that has others report it; none when the caller did not ask.
    #[must_use]
    pub fn progress_sink(&self) -> Option<ProgressSink> {
        self.progress.clone()
    }

    /// Asks the caller, and waits for all answers. The time that it takes is not the call's.
    pub async fn ask(&self, questions: Vec<Question>) -> Result<Answers, Unasked> {
        let can = self.capabilities();
        let lacking = questions.iter().filter_map(|question| can.lacks(question)).reduce(Capabilities::and);
        if let Some(lacking) = lacking {
            return Err(Unasked::Incapable(lacking));
        }
        let Some(asker) = &self.asker else { return Err(Unasked::Gone) };
        if questions.len() > MAX_QUESTIONS {
            return Err(Unasked::TooMany("more questions at once than the hub passes on"));
        }
        let _thinking = self.deadline.as_ref().map(|deadline| deadline.pause());
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {
                // Whoever runs the tool sees first that it is cancelled, and not what it makes of this.
                tokio::task::yield_now().await;
                Err(Unasked::Gone)
            }
            answers = asker.ask(questions) => answers,
        }
    }

    /// What the caller can be asked.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.asker.as_ref().map(|asker| asker.capabilities()).unwrap_or_default()
    }

    /// Where the caller reads the log of another server, if it wants to.
    #[must_use]
    pub fn log_sink(&self) -> Option<LogSink> {
        self.log.clone()
    }

    /// Answers that the caller gave before it was asked, an object.
    #[must_use]
    pub fn inputs(&self) -> Option<&RawJson> {
        self.inputs.as_ref()
    }

    /// The place of this call in a trace, for `_meta` or the headers of what the tool asks of others.
    #[must_use]
    pub fn trace_context(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// The session a tool works on: the one named in its arguments, else the caller's. Only a write
    /// makes one that does not exist.
    pub async fn target_session(&self, named: Option<&str>, intent: Intent) -> Result<SessionId, CallError> {
        match named {
            None => Ok(self.session_id),
            Some(name) => self.sessions.named(&self.principal, name, intent).await,
        }
    }

    /// Folder for files of a session, made when first asked for.
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
