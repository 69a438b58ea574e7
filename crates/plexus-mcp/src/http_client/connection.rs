//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! The task that waits for an answer also does the reading and writing: no other task has to be woken for a request to
//! go out or for its answer to come in. A connection that nobody uses is not read from; that it was closed meanwhile is
//! seen before the next request is written, and that request goes elsewhere.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::network::Io;

/// How long a connection is kept that nobody uses, unless the server says less.
const KEEP: Duration = Duration::from_secs(60);

pub(super) type Outbound = Request<Full<Bytes>>;

pub(super) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    /// None once the connection has ended.
    driver: Option<Box<Connection<TokioIo<Io>, Full<Bytes>>>>,
    keep: Duration,
    idle_since: Instant,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) error: hyper::Error,
    /// The request itself, if certainly no byte of it was written.
    pub(super) request: Option<Box<Outbound>>,
}

impl HttpConnection {
    pub(super) async fn open(io: Io) -> Result<Self, hyper::Error> {
        let (sender, driver) = Builder::new().handshake(TokioIo::new(io)).await?;
        Ok(Self { sender, driver: Some(Box::new(driver)), keep: KEEP, idle_since: Instant::now() })
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(&mut **driver).poll(context).is_ready()
        {
            // Whoever waits on it is told by its end.
            self.driver = None;
        }
    }

    /// Whether a request can be written now. Asks nothing of the network but what has already arrived.
    pub(super) async fn is_ready(&mut self) -> bool {
        poll_fn(|context| {
            self.drive(context);
            Poll::Ready(
                self.driver.is_some() && matches!(self.sender.poll_ready(context), Poll::Ready(Ok(()))),
            )
        })
        .await
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(&mut self, request: Outbound) -> Result<Response<Incoming>, Unsent> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        let answered = poll_fn(|context| {
            if let Some(connection) = driver
                && Pin::new(&mut **connection).poll(context).is_ready()
            {
                *driver = None;
            }
            answer.as_mut().poll(context)
        });
        let response = answered.await.map_err(|mut failed| Unsent {
            request: failed.take_message().map(Box::new),
            error: failed.into_error(),
        })?;
        self.keep = kept_for(response.headers());
        Ok(response)
    }

    /// The next piece of an answer's body; none at its end.
    pub(super) async fn piece(&mut self, body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            let frame: Option<Result<Frame<Bytes>, _>> = poll_fn(|context| {
                // Asking for more is what makes the connection read more.
                if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
                    return Poll::Ready(frame);
                }
                self.drive(context);
                Pin::new(&mut *body).poll_frame(context)
            })
            .await;
            match frame? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Some(Ok(data)),
                    _ => {}
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }

    pub(super) fn rest(&mut self) {
        self.idle_since = Instant::now();
    }

    pub(super) fn is_stale(&self) -> bool {
        self.idle_since.elapsed() >= self.keep
    }
}

/// A server that says how long it keeps a connection is left a second before that: what is sent while it closes is lost.
fn kept_for(headers: &HeaderMap) -> Duration {
    let Some(text) = headers.get("keep-alive").and_then(|value| value.to_str().ok()) else { return KEEP };
    let seconds =
        text.split(',').find_map(|part| part.trim().strip_prefix("timeout=")?.trim().parse::<u64>().ok());
    seconds.map_or(KEEP, |seconds| Duration::from_secs(seconds.saturating_sub(1)).min(KEEP))
}

impl std::fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpConnection").field("open", &self.driver.is_some()).finish_non_exhaustive()
    }
}
