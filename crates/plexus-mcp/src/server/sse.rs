//! Server-sent events: how a stream of messages travels.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// A stream of ready events as a response that no proxy should hold back.
pub(super) fn response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let mut response = Response::new(Body::from_stream(events.map(Ok::<_, Infallible>)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// One JSON message. JSON text has no line breaks, so it is one `data` line.
pub(super) fn event(id: Option<&str>, json: &str) -> Bytes {
    let mut text = String::with_capacity(json.len() + 40);
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = write!(text, "event: message\ndata: {json}\n\n");
    Bytes::from(text)
}

/// An event with an id, no data and the pause before a reconnect.
pub(super) fn priming(id: &str) -> Bytes {
    Bytes::from(format!("id: {id}\nretry: 3000\ndata:\n\n"))
}

/// A comment, which keeps connections open and means nothing.
pub(super) fn keep_alive() -> Bytes {
    Bytes::from_static(b": \n\n")
}

/// Ticks for keep-alive comments, the first one a whole period from now.
pub(super) fn ticks(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
