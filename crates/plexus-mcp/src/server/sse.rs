//! Encodes messages as server-sent events.

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

/// An event stream response, with headers that keep proxies from buffering it.
pub(super) fn response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let mut response = Response::new(Body::from_stream(events.map(Ok::<_, Infallible>)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// An event with one JSON message. The message may contain line breaks from other servers' texts. Each line becomes a
/// `data` line; the reader joins them with line breaks, which are white space in JSON.
pub fn event(id: Option<&str>, json: &str) -> Bytes {
    let mut text = String::with_capacity(json.len() + 40);
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    text.push_str("event: message\n");
    // An empty line, such as between `\r` and `\n`, only adds a line break.
    for line in json.split(['\n', '\r']) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    Bytes::from(text)
}

/// An event with an id and a retry delay, without data.
pub(super) fn priming(id: &str) -> Bytes {
    Bytes::from(format!("id: {id}\nretry: 3000\ndata:\n\n"))
}

/// A comment that keeps the connection open.
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b": \n\n")
}

/// Ticks for keep-alive comments, the first after one period.
pub fn ticks(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[cfg(test)]
mod tests;
