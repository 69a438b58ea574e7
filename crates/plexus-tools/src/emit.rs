//! Events and progress of a running call.
//!
//! Emitting never blocks: an event that cannot be accepted at once is dropped, and the emitter is notified. On a hub an
//! event goes to the log of the call's session, before the end of the call, and to the caller as progress. On a node it
//! goes to the hub.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use plexus_kit::Clock;
use plexus_proto::{CallId, EventKind, NewEvent, SessionId};
use plexus_store::{Records, Store};
use serde_json::{Map, Value};

use crate::{Progress, ProgressSink, redact};

/// The kinds that a running tool may log. Only the hub emits other kinds; a node could forge them.
const KINDS: &[&str] = &["terminal_output", "terminal_closed"];
/// The kind for progress, which goes to the caller but not to the log.
const PROGRESS_KIND: &str = "progress";
/// Longest payload, as JSON, in bytes.
const MAX_EVENT_BYTES: usize = 64 * 1024;
/// The most that one call may log in total, as JSON, in bytes.
const MAX_CALL_BYTES: usize = 2 << 20;
/// The most characters of an event that are sent to the caller as progress.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// Receives events in place of the log. Must not block; returns `false` if it drops the event.
pub type EventSink = Arc<dyn Fn(&str, Map<String, Value>) -> bool + Send + Sync>;

/// The destination of the events of one call.
#[derive(Clone)]
pub(crate) enum Emitter {
    Sink(EventSink),
    Log(Arc<SessionLog>),
}

/// The log of a call's session.
pub(crate) struct SessionLog {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) call_id: CallId,
    pub(crate) session_id: SessionId,
    pub(crate) actor: String,
    /// The node that runs the call.
    pub(crate) node: Option<String>,
    pub(crate) progress: Option<ProgressSink>,
    /// Bytes logged so far.
    logged: AtomicUsize,
    /// Bytes reported to the caller so far.
    reported: AtomicUsize,
}

impl Emitter {
    pub(crate) fn emit(&self, kind: &str, payload: Map<String, Value>) -> bool {
        match self {
            Self::Sink(sink) => sink(kind, payload),
            Self::Log(log) => log.emit(kind, payload),
        }
    }
}

impl SessionLog {
    pub(crate) fn new(
        (store, clock): (&Store, &Clock),
        (call_id, session_id): (CallId, SessionId),
        actor: &str,
        node: Option<String>,
        progress: Option<ProgressSink>,
    ) -> Self {
        Self {
            store: store.clone(),
            clock: clock.clone(),
            call_id,
            session_id,
            actor: actor.to_owned(),
            node,
            progress,
            logged: AtomicUsize::new(0),
            reported: AtomicUsize::new(0),
        }
    }

    fn emit(&self, kind: &str, mut payload: Map<String, Value>) -> bool {
        if kind == PROGRESS_KIND {
            return self.forward_progress(&payload);
        }
        if !KINDS.contains(&kind) {
            return false;
        }
        payload.insert("call_id".to_owned(), self.call_id.to_string().into());
        if let Some(node) = &self.node {
            payload.insert("node".to_owned(), node.as_str().into());
        }
        let text = redact::json(&payload);
        let fits = |logged: usize| logged.checked_add(text.len()).filter(|logged| *logged <= MAX_CALL_BYTES);
        if text.len() > MAX_EVENT_BYTES
            || self.logged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err()
        {
            return false;
        }
        let event = NewEvent {
            at: self.clock.now(),
            kind: EventKind::Other(kind.to_owned()),
            actor: self.actor.clone(),
            payload: text,
            external_id: None,
        };
        let records = Records { audit: vec![], events: vec![(self.session_id, event)] };
        // Accepted at once by the journal or by the writer's queue; both keep the order.
        let accepted = !matches!(self.store.append_soon(records).now_or_never(), Some(Err(_)));
        self.report_text(&payload);
        accepted
    }

    /// Reports text of an event to the caller as progress.
    fn report_text(&self, payload: &Map<String, Value>) {
        let (Some(sink), Some(text)) = (&self.progress, payload.get("text").and_then(Value::as_str)) else {
            return;
        };
        if text.is_empty() {
            return;
        }
        let reported = self.reported.fetch_add(text.len(), Ordering::Relaxed) + text.len();
        let message = text.chars().take(MAX_MESSAGE_CHARS).collect();
        // A count of bytes is exact up to 2^53.
        #[expect(clippy::cast_precision_loss)]
        sink(Progress { done: reported as f64, total: None, message: Some(message) });
    }

    fn forward_progress(&self, payload: &Map<String, Value>) -> bool {
        let Some(sink) = &self.progress else { return true };
        let number = |name: &str| payload.get(name).and_then(Value::as_f64).filter(|n| n.is_finite());
        let Some(done) = number("done") else { return false };
        let message = payload.get("message").and_then(Value::as_str);
        let message = message.map(|message| message.chars().take(MAX_MESSAGE_CHARS).collect());
        sink(Progress { done, total: number("total"), message });
        true
    }
}
