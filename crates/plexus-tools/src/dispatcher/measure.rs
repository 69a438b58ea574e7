//! Log lines, traces and metrics of calls.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::metrics::histogram::Histogram;
use plexus_kit::metrics::{ByName, Counter, Family, Label, seconds};
use plexus_kit::telemetry::millis;
use plexus_kit::{Metrics, trace};
use plexus_proto::{CallId, ErrorCode};
use tracing::{Span, field};

use super::{Call, CallReply};

/// The label of every name that is not a tool the caller may see: callers must not be able to choose label values.
const UNKNOWN: &str = "unknown";

type CallLabels = (Label<Arc<str>>, Label<&'static str>);

/// Outcomes and durations of calls, by tool.
#[derive(Debug)]
pub(super) struct CallMetrics {
    calls: Family<CallLabels, Counter>,
    seconds: Family<Label<Arc<str>>, Histogram, fn() -> Histogram>,
    meters: ByName<Meter>,
}

/// The metrics of one tool that nearly every call needs, cached.
#[derive(Debug, Clone)]
struct Meter {
    tool: Arc<str>,
    ok: Counter,
    seconds: Histogram,
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            meters: ByName::default(),
        }
    }
}

impl CallMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.add("plexus_tool_calls", "Calls that ended, by outcome", self.calls.clone());
        let about = "Duration of a call, from its arrival to the commit of its record";
        metrics.add("plexus_tool_call_duration_seconds", about, self.seconds.clone());
    }

    fn meter(&self, tool: &str) -> Meter {
        self.meters.get(tool, |tool| Meter {
            ok: self.calls.get_or_create_owned(&labels(&tool, "ok")),
            seconds: self.seconds.get_or_create_owned(&[("tool", tool.clone())]),
            tool,
        })
    }

    /// Counts and logs a call that has ended. Must run within the span of the call.
    pub(super) fn ended(&self, reply: &CallReply, took: Duration) {
        let code = reply.result.as_ref().err().map(|error| error.code);
        // Without a session the name was not resolved.
        let is_known = reply.session_id.is_some() && code != Some(ErrorCode::UnknownTool);
        let meter = self.meter(if is_known { &reply.tool } else { UNKNOWN });
        meter.seconds.observe(took.as_secs_f64());
        let outcome = code.map_or("ok", ErrorCode::as_str);
        match code {
            None => meter.ok.inc(),
            Some(_) => self.calls.get_or_create(&labels(&meter.tool, outcome)).inc(),
        };
        let span = Span::current();
        trace::note(&span, "outcome", outcome);
        let elapsed_ms = millis(took);
        match code {
            // Neither error is the caller's fault, so the log shows it by default.
            Some(ErrorCode::Internal | ErrorCode::DeadlineExceeded) => {
                trace::failed(&span, outcome);
                tracing::warn!(outcome, elapsed_ms, "call failed");
            }
            Some(_) => {
                trace::failed(&span, outcome);
                tracing::debug!(outcome, elapsed_ms, "call ended");
            }
            None => tracing::debug!(outcome, elapsed_ms, "call ended"),
        }
    }
}

fn labels(tool: &Arc<str>, outcome: &'static str) -> CallLabels {
    ([("tool", tool.clone())], [("outcome", outcome)])
}

/// The span of a call, shared by its log lines. The tool's name is recorded once it is resolved; until then it is only
/// caller input.
pub(super) fn span(call_id: CallId, call: &Call) -> Span {
    let via = call.via.as_str();
    let span = tracing::error_span!("call", %call_id, via, session_id = field::Empty, tool = field::Empty);
    if let Some(parent) = &call.trace.call {
        parent.adopt(&span);
    }
    span
}
