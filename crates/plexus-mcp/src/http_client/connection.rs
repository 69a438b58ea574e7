//! One HTTP/1.1 connection, driven by the task that uses it.
//!
//! The task that waits for an answer also reads and writes, so no other task has to be woken. An idle connection is
//! not read from; if the server has closed it, that is noticed before the next request is written, which then uses
//! another connection.

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

/// Lifetime of an idle connection, unless the server specifies a shorter one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) type Outbound = Request<Full<Bytes>>;

pub(super) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    /// None once the connection has ended.
    driver: Option<Box<Connection<TokioIo<Io>, Full<Bytes>>>>,
    idle_timeout: Duration,
    idle_since: Instant,
}

/// Sending a request failed.
#[derive(Debug)]
pub(super) struct SendError {
    pub(super) error: hyper::Error,
    /// The request, if certainly none of its bytes were written.
    pub(super) request: Option<Box<Outbound>>,
}

impl HttpConnection {
    pub(super) async fn open(io: Io) -> Result<Self, hyper::Error> {
        let (sender, driver) = Builder::new().handshake(TokioIo::new(io)).await?;
        Ok(Self {
            sender,
            driver: Some(Box::new(driver)),
            idle_timeout: IDLE_TIMEOUT,
            idle_since: Instant::now(),
        })
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(&mut **driver).poll(context).is_ready()
        {
            // Its end wakes the future that waits on it.
            self.driver = None;
        }
    }

    /// Whether a request can be written now. Considers what has already arrived, without waiting.
    pub(super) async fn is_ready(&mut self) -> bool {
        poll_fn(|context| {
            self.drive(context);
            Poll::Ready(
                self.driver.is_some() && matches!(self.sender.poll_ready(context), Poll::Ready(Ok(()))),
            )
        })
        .await
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(&mut self, request: Outbound) -> Result<Response<Incoming>, SendError> {
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
        let response = answered.await.map_err(|mut failed| SendError {
            request: failed.take_message().map(Box::new),
            error: failed.into_error(),
        })?;
        self.idle_timeout = idle_timeout(response.headers());
        Ok(response)
    }

    /// The next piece of the answer's body; none at its end.
    pub(super) async fn piece(&mut self, body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            let frame: Option<Result<Frame<Bytes>, _>> = poll_fn(|context| {
                // Polling the body makes the connection read more.
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

    pub(super) fn mark_idle(&mut self) {
        self.idle_since = Instant::now();
    }

    pub(super) fn is_stale(&self) -> bool {
        self.idle_since.elapsed() >= self.idle_timeout
    }
}

/// The server's keep-alive timeout minus one second: a request sent while the server closes the connection is lost.
fn idle_timeout(headers: &HeaderMap) -> Duration {
    let Some(text) = headers.get("keep-alive").and_then(|value| value.to_str().ok()) else {
        return IDLE_TIMEOUT;
    };
    let seconds =
        text.split(',').find_map(|part| part.trim().strip_prefix("timeout=")?.trim().parse::<u64>().ok());
    seconds.map_or(IDLE_TIMEOUT, |seconds| Duration::from_secs(seconds.saturating_sub(1)).min(IDLE_TIMEOUT))
}

impl std::fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpConnection").field("open", &self.driver.is_some()).finish_non_exhaustive()
    }
}
