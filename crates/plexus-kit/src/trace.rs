//! Trace context of W3C: which trace a request belongs to, taken from a caller and passed on.
//!
//! A hub without an exporter has no spans of its own in a trace; it hands on what it was given, so
//! that a trace is not cut where it passes through.

use std::fmt;

use opentelemetry::trace::{SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, Value};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Names under which it travels, in HTTP headers and in `_meta` of MCP.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Bytes of `traceparent` in version 00; later versions may have more behind them.
const LENGTH: usize = 55;
/// Longer than that is not `traceparent` of any version.
const MAX_PARENT: usize = 256;
/// What the standard asks everyone to pass on.
const MAX_STATE: usize = 512;

/// A place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// The context among named values, such as headers. One that is not valid counts as none, as the
    /// standard asks; a state that is not valid is left out.
    pub fn extract<'v>(get: impl Fn(&str) -> Option<&'v str>) -> Option<Self> {
        let traceparent = get(TRACEPARENT)?;
        parse(traceparent)?;
        let plain = |state: &&str| {
            (1..=MAX_STATE).contains(&state.len()) && state.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~'))
        };
        let tracestate = get(TRACESTATE).filter(plain).map(str::to_owned);
        Some(Self { traceparent: traceparent.to_owned(), tracestate })
    }

    /// The context of a span that is exported; none of any other.
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

    /// Makes `span`, which nothing has happened in yet, a child of this; of no effect where spans are
    /// not exported.
    pub fn adopt(&self, span: &Span) {
        let Some((trace_id, span_id, flags)) = parse(&self.traceparent) else { return };
        let state: TraceState =
            self.tracestate.as_deref().and_then(|state| state.parse().ok()).unwrap_or_default();
        let parent = SpanContext::new(trace_id, span_id, flags, true, state);
        // Fails where there is no exporter, and then there is nothing to do.
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

/// What came with a call about the trace it is part of.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// In the call itself; it wins.
    pub call: Option<TraceContext>,
    /// In the request that carried the call, and thus around the span of that request.
    pub request: Option<TraceContext>,
}

impl Incoming {
    /// What a tool passes on: the span of its call, or what came in where spans are not exported.
    #[must_use]
    pub fn passed_on(self, span: &Span) -> Option<TraceContext> {
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

/// Adds to an exported span what the log says in a line of its own.
pub fn note(span: &Span, name: &'static str, value: impl Into<Value>) {
    span.set_attribute(name, value);
}

/// Marks an exported span as failed.
pub fn failed(span: &Span, why: &'static str) {
    span.set_status(Status::error(why));
}

#[cfg(test)]
mod tests;
