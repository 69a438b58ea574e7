//! A link over requests, where a WebSocket does not get through.
//!
//! Two tasks carry it: one posts what is to be sent, as many frames at a time as there are, and one asks for what the hub
//! has. A request that fails is made again for a while: frames are numbered, so nothing comes twice.

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

use super::{Link, LinkError, LinkRx, LinkTx, answer};

/// Frames that wait on either side of the requests.
const WAITING: usize = 64;
/// For one request that the hub answers at once.
const PATIENCE: Duration = Duration::from_secs(20);
/// A request is made so often before the link is given up.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// Where the frames of a node are exchanged, and as whom.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub http: reqwest::Client,
    /// `…/api/v1/nodes/{id}/frames`.
    pub url: Url,
    pub authorization: Option<HeaderValue>,
}

/// A link that begins with the first frame that is sent over it, which has to be `hello`.
#[must_use]
pub fn open(exchange: Exchange, supervisor: &Supervisor) -> Link {
    let (outgoing, to_send) = mpsc::channel(WAITING);
    let (received, incoming) = mpsc::channel(WAITING);
    let over = CancellationToken::new();
    let (posted, all_sent) = oneshot::channel();
    let carried = Carried { exchange, received, over: over.clone(), supervisor: supervisor.clone() };
    supervisor.spawn(Stage::Work, "link by requests", async move {
        carried.post(to_send).await;
        let _ = posted.send(());
    });
    Link {
        tx: Box::new(Sending { outgoing: Some(outgoing), all_sent: Some(all_sent) }),
        rx: Box::new(Receiving { incoming, _over: over.drop_guard() }),
        transport: "poll",
    }
}

/// What is to be sent, or why nothing is any more.
type Arrival = Result<Received, LinkError>;

struct Carried {
    exchange: Exchange,
    received: mpsc::Sender<Arrival>,
    over: CancellationToken,
    supervisor: Supervisor,
}

impl Carried {
    /// Posts frames until there are no more, or the link is over.
    async fn post(self, mut frames: mpsc::Receiver<String>) {
        let (mut epoch, mut number) = (None, 0);
        let mut next: Option<String> = None;
        loop {
            let first = match next.take() {
                Some(first) => first,
                None => tokio::select! {
                    () = self.over.cancelled() => return,
                    first = frames.recv() => match first {
                        Some(first) => first,
                        None => return,
                    },
                },
            };
            let mut batch = vec![first];
            // `hello` goes alone: what comes after it needs to know the link.
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
                // It was made by us from a frame, and is JSON.
                RawValue::from_string(frame).ok().map(|frame| Numbered { n: number, frame })
            });
            let body = PollSend { epoch, frames: numbered.collect() };
            match self.exchange.post(&body).await {
                Ok(taken) if epoch.is_none() => {
                    epoch = Some(taken.epoch);
                    let (exchange, received, over) =
                        (self.exchange.clone(), self.received.clone(), self.over.clone());
                    self.supervisor.spawn(Stage::Work, "link by requests, receiving", async move {
                        get(exchange, taken.epoch, received, over).await;
                    });
                }
                Ok(_) => {}
                Err(end) => {
                    // Nobody is left to be told where this is refused.
                    let _ = self.received.send(Err(end)).await;
                    return;
                }
            }
        }
    }
}

/// Asks for frames until the link is over.
async fn get(exchange: Exchange, epoch: u64, received: mpsc::Sender<Arrival>, over: CancellationToken) {
    let mut after = 0;
    loop {
        let batch = tokio::select! {
            () = over.cancelled() => return,
            batch = exchange.get(PollQuery { epoch, after, wait_ms: Some(MAX_WAIT_MS) }) => batch,
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
            let arrival = match n == after + 1 {
                true => Frame::parse(frame.get()).map_err(|error| LinkError::Invalid(error.to_string())),
                false => Err(LinkError::Broken(format!("frame {} is missing", after + 1))),
            };
            let failed = arrival.is_err();
            after = n;
            if received.send(arrival).await.is_err() || failed {
                return;
            }
        }
    }
}

impl Exchange {
    async fn post(&self, body: &PollSend) -> Result<PollTaken, LinkError> {
        // The first one makes a link: one that is made twice is one too many, and the dialler tries again by itself.
        let attempts = if body.epoch.is_none() { 1 } else { ATTEMPTS };
        self.ask(attempts, || self.http.post(self.url.clone()).json(body).timeout(PATIENCE)).await
    }

    async fn get(&self, query: PollQuery) -> Result<PollBatch, LinkError> {
        let patience = PATIENCE + Duration::from_millis(MAX_WAIT_MS);
        self.ask(ATTEMPTS, || self.http.get(self.url.clone()).query(&query).timeout(patience)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        attempts: u32,
        request: impl Fn() -> reqwest::RequestBuilder,
    ) -> Result<T, LinkError> {
        let mut attempt = 1;
        loop {
            let error = match self.once(request()).await {
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

    async fn once<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, LinkError> {
        let request = match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        };
        let broken = |error: reqwest::Error| LinkError::Broken(error.without_url().to_string());
        let answer = request.send().await.map_err(broken)?;
        let status = answer.status();
        let body = bounded(answer).await?;
        match status {
            StatusCode::OK => serde_json::from_slice(&body)
                .map_err(|error| LinkError::Invalid(format!("the hub's answer cannot be read: {error}"))),
            _ => Err(answer::ended(status, &body)),
        }
    }
}

/// The body of an answer, which may be anybody's.
async fn bounded(mut answer: reqwest::Response) -> Result<Vec<u8>, LinkError> {
    let mut body = Vec::new();
    loop {
        let chunk = answer.chunk().await;
        let chunk = chunk.map_err(|error| LinkError::Broken(error.without_url().to_string()))?;
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > MAX_POLL_BYTES {
            return Err(LinkError::Invalid(format!("an answer of more than {MAX_POLL_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
}

struct Sending {
    /// None once it was closed.
    outgoing: Option<mpsc::Sender<String>>,
    all_sent: Option<oneshot::Receiver<()>>,
}

impl LinkTx for Sending {
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

struct Receiving {
    incoming: mpsc::Receiver<Arrival>,
    /// The requests end with this.
    _over: DropGuard,
}

impl LinkRx for Receiving {
    fn recv(&mut self) -> BoxFuture<'_, Arrival> {
        Box::pin(async { self.incoming.recv().await.unwrap_or(Err(LinkError::Closed(None))) })
    }
}
