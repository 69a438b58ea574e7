//! The echo server with the transport of 2024-11-05: answers are sent on a stream that the client opened before.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream;
use tokio::sync::mpsc;

use super::echo::Echo;

/// Maximum number of queued answers.
const QUEUE: usize = 1024;

#[derive(Debug)]
struct Streams {
    echo: Echo,
    next: AtomicU64,
    open: Mutex<HashMap<u64, mpsc::Sender<String>>>,
}

pub(super) fn echo(tools: usize) -> Router {
    let streams = Streams { echo: Echo::new(tools, true), next: AtomicU64::new(1), open: Mutex::default() };
    let router = Router::new().route("/sse", get(open)).route("/messages/{id}", post(message));
    router.with_state(Arc::new(streams))
}

/// The stream, which starts with the URL to post to.
async fn open(State(streams): State<Arc<Streams>>) -> Response {
    let id = streams.next.fetch_add(1, Ordering::Relaxed);
    let (sender, receiver) = mpsc::channel(QUEUE);
    let _ = sender.try_send(format!("event: endpoint\ndata: /messages/{id}\n\n"));
    streams.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
    let events = stream::unfold(receiver, |mut receiver| async {
        let event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), receiver))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

async fn message(State(streams): State<Arc<Streams>>, Path(id): Path<u64>, body: Bytes) -> StatusCode {
    let open = streams.open.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    let (Some(open), Ok(message)) = (open, serde_json::from_slice(&body)) else {
        return StatusCode::BAD_REQUEST;
    };
    if let Some(answer) = streams.echo.answer(&message) {
        // An error means that the client is gone.
        let _ = open.send(format!("event: message\ndata: {answer}\n\n")).await;
    }
    StatusCode::ACCEPTED
}
