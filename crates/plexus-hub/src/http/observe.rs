//! Logs, traces and counts every request. This is the outermost layer.
//!
//! Only the route is recorded instead of the path, and the query is omitted: either may contain data that does not
//! belong in a log.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Method};
use plexus_kit::telemetry::millis;
use plexus_kit::{TraceContext, trace};
use tracing::{Instrument, Span, field};

use crate::App;

/// Maximum length of a client's own request id in the log.
const CLIENT_ID: usize = 64;

/// Id of a request in the log and in its answer.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Outermost layer: assigns the request an id and a span, and counts it.
pub(crate) async fn observe(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let request_id = uuid::Uuid::now_v7().simple().to_string();
    let method = method(request.method());
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let mut pending = app.http.begin(method, path);
    let span = tracing::error_span!(
        "request",
        request_id,
        method,
        route = pending.route(),
        subject = field::Empty,
        client_request_id = client_id(request.headers()),
    );
    if let Some(parent) = trace_context(request.headers()) {
        parent.adopt(&span);
    }
    request.extensions_mut().insert(RequestId(request_id));
    async move {
        let response = next.run(request).await;
        let status = response.status();
        let elapsed_ms = millis(pending.answered(status));
        let span = Span::current();
        trace::note(&span, "status", i64::from(status.as_u16()));
        if status.is_server_error() {
            trace::failed(&span, "server error");
        }
        tracing::debug!(status = status.as_u16(), elapsed_ms, "request");
        response
    }
    .instrument(span)
    .await
}

/// The trace that the request belongs to, according to its headers.
pub(crate) fn trace_context(headers: &HeaderMap) -> Option<TraceContext> {
    TraceContext::extract(|name| headers.get(name).and_then(|value| value.to_str().ok()))
}

/// Adds the caller to all later log lines of the request.
pub(super) fn record_subject(subject: &str) {
    Span::current().record("subject", subject);
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The client's id of the request. Not trusted to be unique, only checked to be short and printable.
fn client_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get("x-request-id")?.to_str().ok()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    ((1..=CLIENT_ID).contains(&id.len()) && id.bytes().all(plain)).then_some(id)
}
