//! W3C trace context: the trace of a request, accepted from the caller and propagated.
//!
//! A hub without an exporter adds no spans to a trace; it forwards the context unchanged, so that the trace
//! is not interrupted.

use std::fmt;

use opentelemetry::trace::{SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, Value};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Names of HTTP headers, and of keys in `_meta` of MCP.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Length of a version 00 `traceparent`; later versions may be longer.
const LENGTH: usize = 55;
/// Maximum length of a `traceparent` of any version.
const MAX_PARENT: usize = 256;
/// Minimum length of `tracestate` that the standard requires to be propagated.
const MAX_STATE: usize = 512;

/// A position in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Extracts the context from named values, such as headers. An invalid context is ignored, as the
    /// standard requires, and an invalid state is dropped.
    pub fn extract<'v>(get: impl Fn(&str) -> Option<&'v str>) -> Option<Self> {
        let traceparent = get(TRACEPARENT)?;
        parse(traceparent)?;
        let plain = |state: &&str| {
            (1..=MAX_STATE).contains(&state.len()) && state.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~'))
        };
        let tracestate = get(TRACESTATE).filter(plain).map(str::to_owned);
        Some(Self { traceparent: traceparent.to_owned(), tracestate })
    }

    /// The context of an exported span; `None` for other spans.
    #[must_use]
    pub fn of(span: &Span) -> Option<Self> {
        let context = span.context();
        let span = context.span();
        let span = span.span_context();
        span.is_valid().then(|| {
            let state = span.trace_state().header();
            Self {
                traceparent: format!(
                    "00-{}-{}-{:02x}",
                    span.trace_id(),
                    span.span_id(),
                    span.trace_flags() & TraceFlags::SAMPLED
                ),
                tracestate: Some(state).filter(|state| !state.is_empty()),
            }
        })
    }

    /// Makes the new span `span` a child of this context; has no effect if spans are not exported.
    pub fn adopt(&self, span: &Span) {
        let Some((trace_id, span_id, flags)) = parse(&self.traceparent) else { return };
        let state: TraceState =
            self.tracestate.as_deref().and_then(|state| state.parse().ok()).unwrap_or_default();
        let parent = SpanContext::new(trace_id, span_id, flags, true, state);
        // Fails if there is no exporter, in which case nothing is to be done.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }

    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent)
    }
}

/// Trace contexts received with a call.
#[derive(Debug, Clone, Default)]
pub struct ReceivedContexts {
    /// From the call itself; takes precedence.
    pub call: Option<TraceContext>,
    /// From the request that carried the call; the parent of that request's span.
    pub request: Option<TraceContext>,
}

impl ReceivedContexts {
    /// The context for a tool: the span of its call, or the received context if spans are not exported.
    #[must_use]
    pub fn context_for_tool(self, span: &Span) -> Option<TraceContext> {
        TraceContext::of(span).or(self.call).or(self.request)
    }
}

fn parse(text: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let hex = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).then_some(part)
    };
    let dash = |at: usize| text.as_bytes().get(at) == Some(&b'-');
    let version = hex(0..2).filter(|version| *version != "ff")?;
    let length_ok = match version {
        "00" => text.len() == LENGTH,
        _ => text.len() <= MAX_PARENT && (text.len() == LENGTH || dash(LENGTH)),
    };
    if !length_ok || !dash(2) || !dash(35) || !dash(52) {
        return None;
    }
    let trace_id = TraceId::from_hex(hex(3..35)?).ok().filter(|id| *id != TraceId::INVALID)?;
    let span_id = SpanId::from_hex(hex(36..52)?).ok().filter(|id| *id != SpanId::INVALID)?;
    let flags = u8::from_str_radix(hex(53..55)?, 16).ok()?;
    Some((trace_id, span_id, TraceFlags::new(flags) & TraceFlags::SAMPLED))
}

/// Adds an attribute to an exported span; the log reports the value in a separate line.
pub fn note(span: &Span, name: &'static str, value: impl Into<Value>) {
    span.set_attribute(name, value);
}

/// Marks an exported span as failed.
pub fn failed(span: &Span, why: &'static str) {
    span.set_status(Status::error(why));
}

#[cfg(test)]
mod tests;
