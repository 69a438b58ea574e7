//! What a running tool knows about its call.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use plexus_auth::Principal;
use plexus_kit::{Clock, TraceContext};
use plexus_proto::{CallId, SessionId};
use plexus_store::Store;
use tokio_util::sync::CancellationToken;

use crate::sessions::SessionDirectory;
use crate::{CallError, Visible};

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
    pub(crate) progress: Option<ProgressSink>,
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

    /// Where progress goes, for a tool that has others report it; none when the caller did not ask.
    #[must_use]
    pub fn progress_sink(&self) -> Option<ProgressSink> {
        self.progress.clone()
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
