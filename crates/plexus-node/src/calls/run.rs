//! One call through the node's dispatcher.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_auth::Principal;
use plexus_kit::TraceContext;
use plexus_kit::trace::{ReceivedContexts, TRACEPARENT};
use plexus_machine::policy::Policies;
use plexus_machine::tools::probe;
use plexus_proto::ErrorCode;
use plexus_proto::node::{self, CallEvent, CallOutcome, MAX_FRAME};
use plexus_store::Store;
use plexus_tools::{Call, Dispatcher, EventSink, Progress, ProgressSink, SessionKey, Via, outcome};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::stop::{StopSignal, refused};

/// Bytes of a frame around its result.
const FRAME_OVERHEAD: usize = 1024;
/// Maximum payload of an event; events with a longer one are dropped.
const MAX_EVENT: usize = 256 << 10;

/// Receives the events of a call; returns false if the event was dropped.
pub(super) type ReportEvent = Arc<dyn Fn(CallEvent) -> bool + Send + Sync>;

pub(super) struct CallRunner {
    dispatcher: Dispatcher,
    store: Store,
    policy: Policies,
}

impl CallRunner {
    pub(super) fn new(dispatcher: Dispatcher, store: Store, policy: Policies) -> Self {
        Self { dispatcher, store, policy }
    }

    pub(super) async fn run(&self, call: node::Call, stop: &StopSignal, report: ReportEvent) -> CallOutcome {
        if call.tool == probe::NAME && !call.keep {
            return self.probe().await;
        }
        // The machine's own policy applies to every caller, whatever the hub has authorized.
        if let Err(why) = self.policy.now().check_tool(&call.tool) {
            let message = format!("{} cannot be called on this machine: {why}", call.tool);
            let hint =
                "Nothing was run. Use another machine, or ask the owner of this one to change its node.toml.";
            return refused(ErrorCode::Forbidden, message, hint);
        }
        let Some(principal) = Principal::relayed(&call.caller.subject) else {
            let message = format!("{:?} is not the name of a caller", call.caller.subject);
            return refused(
                ErrorCode::InvalidRequest,
                message,
                "The hub and the node may have different versions.",
            );
        };
        let arguments: Value = match serde_json::from_str(call.arguments.get()) {
            Ok(arguments) => arguments,
            Err(error) => {
                let message = format!("the arguments cannot be read: {error}");
                return refused(ErrorCode::InvalidArguments, message, "They must be a JSON object.");
            }
        };
        let events = events(&call, report);
        let session = SessionKey::new("hub", &[&call.session_id.to_string()], None);
        // Without an idempotency key: the hub has reserved it, and here the call id keeps the call from running twice.
        let call = Call::new(call.tool, arguments, session, Via::Link)
            .with_call_id(call.call_id)
            .with_cancel(stop.token())
            .with_progress(progress(events.clone()))
            .with_events(events)
            .with_deadline(Duration::from_millis(call.deadline_ms))
            .with_trace(trace(call.traceparent.as_deref()));
        outcome::to_frame(self.dispatcher.call(Arc::new(principal), call).await.result)
    }
}

impl CallRunner {
    /// Answers the hub's probe, which comes once a minute per link. It is not recorded, because it would fill the
    /// disk of an idle machine.
    async fn probe(&self) -> CallOutcome {
        match self.store.check_writable().await {
            Ok(()) => CallOutcome::Output(node::Output { text: String::new(), structured: None }),
            Err(error) => {
                let message = format!("the node cannot write to its disk: {error}");
                refused(ErrorCode::Unavailable, message, "Check whether the disk of the node is full.")
            }
        }
    }
}

impl fmt::Debug for CallRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRunner").finish_non_exhaustive()
    }
}

fn trace(traceparent: Option<&str>) -> ReceivedContexts {
    let call = TraceContext::extract(|name| traceparent.filter(|_| name == TRACEPARENT));
    ReceivedContexts { call, request: None }
}

/// Numbers the events of a call, including dropped ones.
fn events(call: &node::Call, report: ReportEvent) -> EventSink {
    let (call_id, numbers) = (call.call_id, AtomicU64::new(0));
    Arc::new(move |kind: &str, payload: Map<String, Value>| {
        let seq = numbers.fetch_add(1, Ordering::Relaxed) + 1;
        match to_raw_value(&payload) {
            Ok(payload) if payload.get().len() <= MAX_EVENT => {
                report(CallEvent { call_id, seq, kind: kind.to_owned(), payload })
            }
            _ => false,
        }
    })
}

fn progress(events: EventSink) -> ProgressSink {
    Arc::new(move |Progress { done, total, message }| {
        let payload = json!({ "done": done, "total": total, "message": message });
        if let Value::Object(payload) = payload {
            events("progress", payload);
        }
    })
}

/// The outcome, or an error if it is too long for a frame.
pub(super) fn limit_to_frame(outcome: CallOutcome) -> CallOutcome {
    // A byte becomes at most six bytes of JSON.
    if weight(&outcome) * 6 + FRAME_OVERHEAD <= MAX_FRAME {
        return outcome;
    }
    let length = serde_json::to_string(&outcome).map_or(usize::MAX, |text| text.len());
    if length + FRAME_OVERHEAD <= MAX_FRAME {
        return outcome;
    }
    CallOutcome::Failed(node::Failure {
        code: ErrorCode::TooLarge,
        message: format!(
            "the tool has run, but its result of {length} bytes is too long to be sent to the hub"
        ),
        hint: Some("Request less at a time.".to_owned()),
        details: Value::Null,
        nothing_ran: false,
    })
}

/// The approximate size of an outcome in memory, in bytes.
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
