//! A link over HTTP requests, for networks that block WebSockets.
//!
//! One task posts outgoing frames in batches, another long-polls for the hub's frames. Failed requests are retried a
//! few times; frames are numbered, so none arrives twice.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderValue};
use plexus_kit::{Stage, Supervisor};
use plexus_proto::node::poll::{
    MAX_FRAMES, MAX_POLL_BYTES, MAX_WAIT_MS, Numbered, PollBatch, PollQuery, PollSend, PollTaken,
};
use plexus_proto::node::{Frame, Received};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::{Link, LinkError, LinkRx, LinkTx, refusal};

/// Frames queued per direction.
const QUEUED: usize = 64;
/// Timeout of a request that the hub answers at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Attempts of a request before the link ends.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// The hub's endpoint for the frames of a node, with the credential.
#[derive(Debug, Clone)]
pub struct PollEndpoint {
    pub http: reqwest::Client,
    /// `…/api/v1/nodes/{id}/frames`.
    pub url: Url,
    pub authorization: Option<HeaderValue>,
}

/// A link that starts when its first frame is sent, which must be `hello`.
#[must_use]
pub fn open(endpoint: PollEndpoint, supervisor: &Supervisor) -> Link {
    let (outgoing, to_send) = mpsc::channel(QUEUED);
    let (received, incoming) = mpsc::channel(QUEUED);
    let closed = CancellationToken::new();
    let (posted, all_sent) = oneshot::channel();
    let sender = PollSender { endpoint, received, closed: closed.clone(), supervisor: supervisor.clone() };
    supervisor.spawn(Stage::Work, "polling link", async move {
        sender.post(to_send).await;
        let _ = posted.send(());
    });
    Link {
        tx: Box::new(PollTx { outgoing: Some(outgoing), all_sent: Some(all_sent) }),
        rx: Box::new(PollRx { incoming, _closed: closed.drop_guard() }),
        transport: "poll",
    }
}

/// A received frame, or why there are no more.
type ReceivedFrame = Result<Received, LinkError>;

struct PollSender {
    endpoint: PollEndpoint,
    received: mpsc::Sender<ReceivedFrame>,
    closed: CancellationToken,
    supervisor: Supervisor,
}

impl PollSender {
    /// Posts frames until there are no more, or the link is closed.
    async fn post(self, mut frames: mpsc::Receiver<String>) {
        let (mut epoch, mut number) = (None, 0);
        let mut next: Option<String> = None;
        loop {
            let first = match next.take() {
                Some(first) => first,
                None => tokio::select! {
                    () = self.closed.cancelled() => return,
                    first = frames.recv() => match first {
                        Some(first) => first,
                        None => return,
                    },
                },
            };
            let mut batch = vec![first];
            // `hello` is sent alone: later frames need the epoch from its answer.
            while epoch.is_some() && batch.len() < MAX_FRAMES {
                let Ok(frame) = frames.try_recv() else { break };
                if batch.iter().map(String::len).sum::<usize>() + frame.len() > MAX_POLL_BYTES / 2 {
                    next = Some(frame);
                    break;
                }
                batch.push(frame);
            }
            let numbered = batch.into_iter().filter_map(|frame| {
                number += 1;
                // Serialized by us, so it is JSON.
                RawValue::from_string(frame).ok().map(|frame| Numbered { n: number, frame })
            });
            let body = PollSend { epoch, frames: numbered.collect() };
            match self.endpoint.post(&body).await {
                Ok(accepted) if epoch.is_none() => {
                    epoch = Some(accepted.epoch);
                    let (endpoint, received, closed) =
                        (self.endpoint.clone(), self.received.clone(), self.closed.clone());
                    self.supervisor.spawn(Stage::Work, "polling link, receiving", async move {
                        get(endpoint, accepted.epoch, received, closed).await;
                    });
                }
                Ok(_) => {}
                Err(end) => {
                    // Fails only if the link was dropped.
                    let _ = self.received.send(Err(end)).await;
                    return;
                }
            }
        }
    }
}

/// Polls for frames until the link is closed.
async fn get(
    endpoint: PollEndpoint,
    epoch: u64,
    received: mpsc::Sender<ReceivedFrame>,
    closed: CancellationToken,
) {
    let mut after = 0;
    loop {
        let batch = tokio::select! {
            () = closed.cancelled() => return,
            batch = endpoint.get(PollQuery { epoch, after, wait_ms: Some(MAX_WAIT_MS) }) => batch,
        };
        let frames = match batch {
            Ok(batch) => batch.frames,
            Err(end) => {
                let _ = received.send(Err(end)).await;
                return;
            }
        };
        for Numbered { n, frame } in frames {
            if n <= after {
                continue;
            }
            let frame = match n == after + 1 {
                true => Frame::parse(frame.get()).map_err(|error| LinkError::Invalid(error.to_string())),
                false => Err(LinkError::Broken(format!("frame {} is missing", after + 1))),
            };
            let failed = frame.is_err();
            after = n;
            if received.send(frame).await.is_err() || failed {
                return;
            }
        }
    }
}

impl PollEndpoint {
    async fn post(&self, body: &PollSend) -> Result<PollTaken, LinkError> {
        // The first request opens a link and must not open two; the dialler retries anyway.
        let attempts = if body.epoch.is_none() { 1 } else { ATTEMPTS };
        self.request_with_retries(attempts, || {
            self.http.post(self.url.clone()).json(body).timeout(REQUEST_TIMEOUT)
        })
        .await
    }

    async fn get(&self, query: PollQuery) -> Result<PollBatch, LinkError> {
        let timeout = REQUEST_TIMEOUT + Duration::from_millis(MAX_WAIT_MS);
        self.request_with_retries(ATTEMPTS, || self.http.get(self.url.clone()).query(&query).timeout(timeout))
            .await
    }

    async fn request_with_retries<T: DeserializeOwned>(
        &self,
        attempts: u32,
        request: impl Fn() -> reqwest::RequestBuilder,
    ) -> Result<T, LinkError> {
        let mut attempt = 1;
        loop {
            let error = match self.request_once(request()).await {
                Ok(answer) => return Ok(answer),
                Err(error @ LinkError::Broken(_)) => error,
                Err(end) => return Err(end),
            };
            if attempt >= attempts {
                return Err(error);
            }
            tokio::time::sleep(PAUSE * attempt).await;
            attempt += 1;
        }
    }

    async fn request_once<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<T, LinkError> {
        let request = match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        };
        let broken = |error: reqwest::Error| LinkError::Broken(error.without_url().to_string());
        let answer = request.send().await.map_err(broken)?;
        let status = answer.status();
        let body = read_limited(answer).await?;
        match status {
            StatusCode::OK => serde_json::from_slice(&body)
                .map_err(|error| LinkError::Invalid(format!("the hub's answer cannot be read: {error}"))),
            _ => Err(refusal::from_status(status, &body)),
        }
    }
}

/// Reads the body of an answer, with a limit, since it may come from any server.
async fn read_limited(mut answer: reqwest::Response) -> Result<Vec<u8>, LinkError> {
    let mut body = Vec::new();
    loop {
        let chunk = answer.chunk().await;
        let chunk = chunk.map_err(|error| LinkError::Broken(error.without_url().to_string()))?;
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > MAX_POLL_BYTES {
            return Err(LinkError::Invalid(format!("an answer is longer than {MAX_POLL_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
}

struct PollTx {
    /// None after it was closed.
    outgoing: Option<mpsc::Sender<String>>,
    all_sent: Option<oneshot::Receiver<()>>,
}

impl LinkTx for PollTx {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        Box::pin(async move {
            let Some(outgoing) = &self.outgoing else { return Err(LinkError::Closed(None)) };
            outgoing.send(frame.text()).await.map_err(|_| LinkError::Closed(None))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        self.outgoing = None;
        Box::pin(async {
            if let Some(all_sent) = self.all_sent.take() {
                let _ = all_sent.await;
            }
        })
    }
}

struct PollRx {
    incoming: mpsc::Receiver<ReceivedFrame>,
    /// Ends the requests on drop.
    _closed: DropGuard,
}

impl LinkRx for PollRx {
    fn recv(&mut self) -> BoxFuture<'_, ReceivedFrame> {
        Box::pin(async { self.incoming.recv().await.unwrap_or(Err(LinkError::Closed(None))) })
    }
}
