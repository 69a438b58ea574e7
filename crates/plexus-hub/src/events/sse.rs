//! An event stream as server-sent events, for `curl` and `EventSource`.
//!
//! The id of an event is the number to resume from, as `Last-Event-ID`. The stream is polled only when the
//! connection has sent the previous data; a connection that accepts no data is closed by [`crate::stall`].

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::{Instant, Interval};

use super::reader::Message;
use super::{EventStream, ticks};

const KEEP_ALIVE: &[u8] = b": \n\n";

pub(crate) fn response(stream: EventStream, guard: impl Send + 'static) -> Response {
    let ticks = ticks(stream.options.keep_alive);
    let body = EventBody { stream, ticks, batch_sent_at: None };
    let body = stream::unfold((body, guard), |(mut body, guard)| async {
        Some((Ok::<_, Infallible>(body.next().await?), (body, guard)))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct EventBody {
    stream: EventStream,
    ticks: Interval,
    /// Since when the connection has unsent data.
    batch_sent_at: Option<Instant>,
}

impl EventBody {
    async fn next(&mut self) -> Option<Bytes> {
        self.batch_sent_at = None;
        let EventStream { reader, permit, stopping, .. } = &mut self.stream;
        let bytes = tokio::select! {
            () = stopping.cancelled() => return None,
            () = permit.wait_until_invalid() => return None,
            messages = reader.next() => written(&messages),
            _ = self.ticks.tick() => Bytes::from_static(KEEP_ALIVE),
        };
        self.batch_sent_at = Some(Instant::now());
        Some(bytes)
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        if self.batch_sent_at.is_some_and(|at| at.elapsed() >= self.stream.options.slow) {
            self.stream.too_slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn written(messages: &[Message]) -> Bytes {
    let mut text = String::new();
    for message in messages {
        let _ = writeln!(text, "id: {}", message.number());
        match message {
            Message::Control(control) => {
                let json = serde_json::to_string(control).unwrap_or_default();
                let _ = write!(text, "event: control\ndata: {json}\n\n");
            }
            Message::Event { item, .. } => {
                // Kinds of other programs may be any text; the event name is omitted if it is not a valid one.
                let kind = item.kind.as_str();
                if !kind.contains(['\n', '\r']) {
                    let _ = writeln!(text, "event: {kind}");
                }
                let _ = write!(text, "data: {}\n\n", item.json);
            }
        }
    }
    Bytes::from(text)
}
