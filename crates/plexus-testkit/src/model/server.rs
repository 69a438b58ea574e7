//! The HTTP server of the scripted model: paths, limits, complete and streamed bodies.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame as Chunk, Incoming};
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::chat::Chat;
use super::messages::Messages;
use super::reply::{Refusal, WireFormat};
use super::request::{ParsedRequest, Wire, headers, settings};
use super::responses::Responses;
use super::script_state::{Answer, ScriptState};

/// Far larger than the first request of an agent with all its tools.
const BODY: usize = 16 * 1024 * 1024;
/// Time limit for receiving a body.
const TIMEOUT: Duration = Duration::from_secs(20);
const PATHS: &str =
    "POST /v1/responses, /v1/chat/completions, /v1/messages, /v1/messages/count_tokens and GET /v1/models";

type Body = BoxBody<Bytes, io::Error>;

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, state: Arc<ScriptState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        let service = service_fn(move |request| {
            let state = state.clone();
            async move { Ok::<_, Infallible>(answer(request, &state).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        let connection = connection.serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move {
            let _ = connection.await;
        });
    }
}

fn format_of(wire: Wire) -> &'static dyn WireFormat {
    match wire {
        Wire::Responses => &Responses,
        Wire::Chat => &Chat,
        Wire::Messages => &Messages,
    }
}

async fn answer(request: Request<Incoming>, state: &ScriptState) -> Response<Body> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match (&method, path.as_str()) {
        (&Method::GET, "/v1/models") => whole(StatusCode::OK, &models()),
        (&Method::POST, "/v1/responses") => generate(Wire::Responses, request, state).await,
        (&Method::POST, "/v1/chat/completions") => generate(Wire::Chat, request, state).await,
        (&Method::POST, "/v1/messages") => generate(Wire::Messages, request, state).await,
        (&Method::POST, "/v1/messages/count_tokens") => match json_body(request).await {
            // Four characters per token, as a rule of thumb.
            Ok(body) => whole(StatusCode::OK, &json!({ "input_tokens": body.to_string().len() / 4 })),
            Err(refusal) => refused(Wire::Messages, &refusal, state),
        },
        _ => {
            let wire = if path.starts_with("/v1/messages") { Wire::Messages } else { Wire::Responses };
            let why = format!("there is no {method} {path}; the scripted model has {PATHS}");
            // Probes are not errors of the script.
            error(wire, &Refusal::NoSuchPath(why))
        }
    }
}

async fn generate(wire: Wire, request: Request<Incoming>, state: &ScriptState) -> Response<Body> {
    let (headers, format) = (headers(request.headers()), format_of(wire));
    let parsed = json_body(request).await.and_then(|body| {
        let parsed = format.parse(&body).map_err(Refusal::Invalid)?;
        Ok(ParsedRequest { settings: settings(body), ..parsed })
    });
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(refusal) => return refused(wire, &refusal, state),
    };
    let (stream, settings) = (parsed.stream, parsed.settings.clone());
    match state.answer(wire, headers, parsed).await {
        Answer::Complete(reply) if stream => {
            let frames = format.stream(&reply, &settings);
            pieces("text/event-stream", frames.iter().map(|frame| frame.bytes()).collect(), false)
        }
        Answer::Complete(reply) => whole(StatusCode::OK, &format.whole(&reply)),
        Answer::Truncated(reply) if stream => {
            let frames = format.stream(&reply, &settings);
            let half = frames.iter().take(frames.len() / 2).map(|frame| frame.bytes()).collect();
            pieces("text/event-stream", half, true)
        }
        Answer::Truncated(reply) => {
            let text = format.whole(&reply).to_string();
            pieces("application/json", vec![text.chars().take(text.len() / 2).collect()], true)
        }
        Answer::Refused(refusal) => error(wire, &refusal),
    }
}

async fn json_body(request: Request<Incoming>) -> Result<Value, Refusal> {
    let read = Limited::new(request.into_body(), BODY).collect();
    let Ok(read) = tokio::time::timeout(TIMEOUT, read).await else {
        return Err(Refusal::Invalid("the body did not arrive in time".to_owned()));
    };
    let bytes = read
        .map_err(|e| Refusal::TooLarge(format!("the body cannot be read, at most {BODY} bytes are: {e}")))?
        .to_bytes();
    let body: Value =
        serde_json::from_slice(&bytes).map_err(|e| Refusal::Invalid(format!("the body is not JSON: {e}")))?;
    match body {
        Value::Object(_) => Ok(body),
        other => Err(Refusal::Invalid(format!("the body must be a JSON object, not {other}"))),
    }
}

/// Refuses an unreadable request, and records it for the test.
fn refused(wire: Wire, refusal: &Refusal, state: &ScriptState) -> Response<Body> {
    state.record.send_modify(|record| record.malformed.push(format!("{wire:?}: {}", refusal.message())));
    error(wire, refusal)
}

fn error(wire: Wire, refusal: &Refusal) -> Response<Body> {
    let (status, body) = format_of(wire).error(refusal);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = whole(status, &body);
    if let Refusal::RateLimited(after) = refusal {
        response.headers_mut().insert(RETRY_AFTER, after.as_secs().into());
    }
    response
}

fn whole(status: StatusCode, body: &Value) -> Response<Body> {
    let bytes = Full::new(Bytes::from(body.to_string()));
    response(status, "application/json", BodyExt::boxed(bytes.map_err(|never| match never {})))
}

/// A body in pieces, each sent separately; `cut` closes the connection after them.
fn pieces(kind: &'static str, pieces: Vec<String>, cut: bool) -> Response<Body> {
    let end = cut.then(|| Err(io::Error::other("cut off, as the script says")));
    let items = pieces.into_iter().map(|piece| Ok(Chunk::data(Bytes::from(piece)))).chain(end);
    let stream = futures_util::stream::iter(items).then(|item| async move {
        // The connection flushes whenever the body is not ready.
        tokio::task::yield_now().await;
        item
    });
    response(StatusCode::OK, kind, BodyExt::boxed(StreamBody::new(stream)))
}

fn response(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

/// One list that the clients of both providers can parse.
fn models() -> Value {
    let model = json!({
        "id": "scripted",
        "object": "model",
        "created": 0,
        "owned_by": "plexus",
        "type": "model",
        "display_name": "Scripted",
        "created_at": "1970-01-01T00:00:00Z",
    });
    json!({ "object": "list", "data": [model], "has_more": false, "first_id": "scripted", "last_id": "scripted" })
}
