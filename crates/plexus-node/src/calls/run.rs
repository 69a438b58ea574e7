//! One call through the node's dispatcher.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_auth::Principal;
use plexus_kit::TraceContext;
use plexus_kit::trace::{Incoming, TRACEPARENT};
use plexus_machine::policy::Policies;
use plexus_machine::tools::probe;
use plexus_proto::ErrorCode;
use plexus_proto::node::{self, CallEvent, CallOutcome, MAX_FRAME};
use plexus_store::Store;
use plexus_tools::{Call, CallKind, Dispatcher, EventSink, Progress, ProgressSink, SessionKey, Via, outcome};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::stop::{Stop, refused};

/// What a frame has around a result.
const FRAME: usize = 1024;
/// Longest payload of an event; a longer one is left out.
const EVENT: usize = 256 << 10;

/// Takes what a call tells; false: it was left out.
pub(super) type Tell = Arc<dyn Fn(CallEvent) -> bool + Send + Sync>;

pub(super) struct Runner {
    dispatcher: Dispatcher,
    store: Store,
    policy: Policies,
}

impl Runner {
    pub(super) fn new(dispatcher: Dispatcher, store: Store, policy: Policies) -> Self {
        Self { dispatcher, store, policy }
    }

    pub(super) async fn run(&self, call: node::Call, stop: &Stop, tell: Tell) -> CallOutcome {
        if call.tool == probe::NAME && !call.keep {
            return self.probe().await;
        }
        // Whoever calls, and whatever the hub says of them: what is off here is off.
        if let Err(why) = self.policy.now().check_tool(&call.tool) {
            let message = format!("{} cannot be called on this machine: {why}", call.tool);
            let hint =
                "Nothing was run. Use another machine, or ask the owner of this one to change its node.toml.";
            return refused(ErrorCode::Forbidden, message, hint);
        }
        let Some(principal) = Principal::relayed(&call.caller.subject) else {
            let message = format!("{:?} is the name of no caller", call.caller.subject);
            return refused(ErrorCode::InvalidRequest, message, "Hub and node may be of different versions.");
        };
        let arguments: Value = match serde_json::from_str(call.arguments.get()) {
            Ok(arguments) => arguments,
            Err(error) => {
                let message = format!("the arguments cannot be read: {error}");
                return refused(ErrorCode::InvalidArguments, message, "They have to be an object.");
            }
        };
        let events = events(&call, tell);
        let call = Call {
            call_id: Some(call.call_id),
            kind: CallKind::Tool,
            tool: call.tool,
            arguments,
            session: SessionKey::new("hub", &[&call.session_id.to_string()], None),
            // The hub has taken the key; here the call's own id keeps it from running twice.
            idempotency_key: None,
            occurred_at: None,
            via: Via::Link,
            cancel: stop.token(),
            progress: Some(progress(events.clone())),
            events: Some(events),
            deadline: Some(Duration::from_millis(call.deadline_ms)),
            asker: None,
            log: None,
            inputs: None,
            trace: trace(call.traceparent.as_deref()),
            until_end: None,
        };
        outcome::to_frame(self.dispatcher.call(Arc::new(principal), call).await.result)
    }
}

impl Runner {
    /// The hub asks whether calls work here, once a minute for as long as there is a link. Nobody has called anything, so
    /// nothing is recorded: a machine that rests would fill its disk with this.
    async fn probe(&self) -> CallOutcome {
        match self.store.check_writable().await {
            Ok(()) => CallOutcome::Output(node::Output { text: String::new(), structured: None }),
            Err(error) => {
                let message = format!("the node cannot write to its disk: {error}");
                refused(ErrorCode::Unavailable, message, "Look whether the disk of the node is full.")
            }
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

fn trace(traceparent: Option<&str>) -> Incoming {
    let call = TraceContext::extract(|name| traceparent.filter(|_| name == TRACEPARENT));
    Incoming { call, request: None }
}

/// Numbers what a call tells, also what is left out.
fn events(call: &node::Call, tell: Tell) -> EventSink {
    let (call_id, numbers) = (call.call_id, AtomicU64::new(0));
    Arc::new(move |kind: &str, payload: Map<String, Value>| {
        let seq = numbers.fetch_add(1, Ordering::Relaxed) + 1;
        match to_raw_value(&payload) {
            Ok(payload) if payload.get().len() <= EVENT => {
                tell(CallEvent { call_id, seq, kind: kind.to_owned(), payload })
            }
            _ => false,
        }
    })
}

fn progress(events: EventSink) -> ProgressSink {
    Arc::new(move |Progress { done, total, message }| {
        let said = json!({ "done": done, "total": total, "message": message });
        if let Value::Object(said) = said {
            events("progress", said);
        }
    })
}

/// The outcome, unless it is too long to be sent.
pub(super) fn within_a_frame(outcome: CallOutcome) -> CallOutcome {
    // In JSON a byte takes six at most.
    if weight(&outcome) * 6 + FRAME <= MAX_FRAME {
        return outcome;
    }
    let length = serde_json::to_string(&outcome).map_or(usize::MAX, |text| text.len());
    if length + FRAME <= MAX_FRAME {
        return outcome;
    }
    CallOutcome::Failed(node::Failure {
        code: ErrorCode::TooLarge,
        message: format!(
            "the tool has run, and its result has {length} bytes, which is more than a link carries"
        ),
        hint: Some("Ask for less at a time.".to_owned()),
        details: Value::Null,
        nothing_ran: false,
    })
}

/// About the bytes of it in memory.
pub(super) fn weight(outcome: &CallOutcome) -> usize {
    match outcome {
        CallOutcome::Output(output) => output.text.len() + output.structured.as_ref().map_or(0, json_weight),
        CallOutcome::Foreign(foreign) => {
            let part = |json: &Option<Box<serde_json::value::RawValue>>| {
                json.as_ref().map_or(0, |json| json.get().len())
            };
            foreign.content.get().len() + part(&foreign.structured) + part(&foreign.meta)
        }
        CallOutcome::Failed(failure) => {
            failure.message.len()
                + failure.hint.as_ref().map_or(0, String::len)
                + json_weight(&failure.details)
        }
    }
}

fn json_weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| json_weight(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + 4 + json_weight(value)).sum::<usize>() + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 24,
    }
}
