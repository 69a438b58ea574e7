//! A link over HTTP requests, for networks that block WebSockets.
//!
//! Frames are numbered in each direction. The hub retains the frames that it sends until the machine acknowledges
//! them, and accepts each of the machine's frames once, however often it arrives.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_node::link::{Link, LinkError, LinkRx, LinkTx};
use plexus_proto::NodeId;
use plexus_proto::node::poll::{MAX_FRAMES, Numbered, PollBatch};
use plexus_proto::node::{Frame, MAX_FRAME, Received};
use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::timeout;

use super::{LinkEnd, LinkProgress, Phase};

/// Maximum number of frames of the machine waiting to be processed; a request with more waits.
const INBOX: usize = 64;
/// Maximum number, and bytes, of frames waiting to be fetched; then sending pauses until some are fetched.
const MAX_QUEUED: usize = 512;
const MAX_QUEUED_BYTES: usize = 2 * MAX_FRAME;

/// The newest polling link of each machine.
#[derive(Debug, Default)]
pub(crate) struct Polls(Mutex<HashMap<NodeId, Arc<Poll>>>);

impl Polls {
    /// Registers a machine's new link with its epoch.
    pub(crate) fn insert(&self, node: NodeId, epoch: u64, poll: Arc<Poll>) {
        let _ = poll.epoch.set(epoch);
        let mut links = self.lock();
        if links.get(&node).is_none_or(|existing| existing.epoch() < Some(epoch)) {
            links.insert(node, poll);
        }
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<Arc<Poll>> {
        self.lock().get(&node).cloned()
    }

    /// Removes the link of a machine that was removed.
    pub(crate) fn remove(&self, node: NodeId) {
        self.lock().remove(&node);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Arc<Poll>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a request cannot be served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PollError {
    /// The link has ended, with the reason.
    Ended(LinkEnd),
    /// Frames are missing between the last accepted one and these.
    Gap { accepted: u64, got: u64 },
    /// Not a valid frame.
    Invalid(String),
    /// The hub is too busy to accept the frames.
    Busy,
}

/// One link.
#[derive(Debug)]
pub(crate) struct Poll {
    pub(crate) ending: LinkProgress,
    epoch: OnceLock<u64>,
    inbox: mpsc::Sender<Result<Received, LinkError>>,
    /// Held by the one request that delivers frames.
    delivery_permit: Semaphore,
    state: Mutex<FrameState>,
    /// Notified when there are frames to fetch, or room for more.
    changed: Notify,
}

/// The frames between the two sides.
#[derive(Debug, Default)]
struct FrameState {
    /// Number of the machine's newest accepted frame.
    accepted: u64,
    /// Number of the hub's newest frame.
    sent: u64,
    frames: VecDeque<(u64, Box<RawValue>)>,
    bytes: usize,
    closed: bool,
}

impl Poll {
    /// A new link, and the handle for its requests.
    pub(crate) fn open() -> (Arc<Self>, Link) {
        let (inbox, frames) = mpsc::channel(INBOX);
        let poll = Arc::new(Self {
            ending: LinkProgress::new(),
            epoch: OnceLock::new(),
            inbox,
            delivery_permit: Semaphore::new(1),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        let link = Link {
            tx: Box::new(PollSender(poll.clone())),
            rx: Box::new(PollReceiver(frames)),
            transport: "poll",
        };
        (poll, link)
    }

    /// `None` before the link has begun.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.epoch.get().copied()
    }

    /// Accepts frames of the machine; returns the number of the newest accepted frame.
    pub(crate) async fn take(
        &self,
        frames: Vec<Numbered>,
        accept_timeout: Duration,
    ) -> Result<u64, PollError> {
        let Ok(_permit) = self.delivery_permit.acquire().await else { return Err(PollError::Busy) };
        for Numbered { n, frame } in frames {
            let accepted = self.lock().accepted;
            if n <= accepted {
                continue;
            }
            if n != accepted + 1 {
                return Err(PollError::Gap { accepted, got: n });
            }
            let received = match frame.get().len() > MAX_FRAME {
                true => Err(format!("a frame has more than {MAX_FRAME} bytes")),
                false => Frame::parse(frame.get()).map_err(|error| error.to_string()),
            };
            let (frame, invalid) = match received {
                Ok(received) => (Ok(received), None),
                Err(why) => (Err(LinkError::Invalid(why.clone())), Some(why)),
            };
            match timeout(accept_timeout, self.inbox.send(frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(PollError::Ended(self.end())),
                Err(_) => return Err(PollError::Busy),
            }
            self.lock().accepted = n;
            if let Some(why) = invalid {
                return Err(PollError::Invalid(why));
            }
        }
        Ok(self.lock().accepted)
    }

    /// The frames for the machine, which has received all up to `after`. Waits up to `wait` for the first one.
    pub(crate) async fn fetch(&self, after: u64, wait: Duration) -> Result<PollBatch, PollError> {
        let batch = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                match self.batch(after) {
                    Some(batch) => return batch,
                    None => changed.await,
                }
            }
        };
        timeout(wait, batch).await.unwrap_or(Ok(PollBatch::default()))
    }

    fn batch(&self, after: u64) -> Option<Result<PollBatch, PollError>> {
        let mut state = self.lock();
        let count_before = state.frames.len();
        while state.frames.front().is_some_and(|(n, _)| *n <= after) {
            if let Some((_, frame)) = state.frames.pop_front() {
                state.bytes -= frame.get().len();
            }
        }
        if state.frames.len() < count_before {
            self.changed.notify_waiters();
        }
        let mut batch = PollBatch::default();
        let mut bytes = 0;
        for (n, frame) in state.frames.iter().take(MAX_FRAMES) {
            bytes += frame.get().len();
            if bytes > MAX_FRAME && !batch.frames.is_empty() {
                break;
            }
            batch.frames.push(Numbered { n: *n, frame: frame.clone() });
        }
        match batch.frames.is_empty() {
            false => Some(Ok(batch)),
            true if state.closed => Some(Err(PollError::Ended(self.end()))),
            true => None,
        }
    }

    fn end(&self) -> LinkEnd {
        match self.ending.phase() {
            Phase::Ended(end) => end,
            Phase::Opening | Phase::Linked(_) => LinkEnd::Closed,
        }
    }

    /// Appends a frame to those to be fetched, if there is room.
    fn enqueue(&self, text: &str) -> Result<bool, LinkError> {
        let mut state = self.lock();
        if state.closed {
            return Err(LinkError::Closed(None));
        }
        let full = state.frames.len() >= MAX_QUEUED || state.bytes + text.len() > MAX_QUEUED_BYTES;
        if full && !state.frames.is_empty() {
            return Ok(false);
        }
        let frame = RawValue::from_string(text.to_owned()).map_err(|e| LinkError::Broken(e.to_string()))?;
        state.sent += 1;
        state.bytes += text.len();
        let n = state.sent;
        state.frames.push_back((n, frame));
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, FrameState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PollSender(Arc<Poll>);

impl LinkTx for PollSender {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        Box::pin(async move {
            let text = frame.text();
            loop {
                let mut changed = std::pin::pin!(self.0.changed.notified());
                changed.as_mut().enable();
                if self.0.enqueue(&text)? {
                    self.0.changed.notify_waiters();
                    return Ok(());
                }
                changed.await;
            }
        })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
        Box::pin(async {})
    }
}

struct PollReceiver(mpsc::Receiver<Result<Received, LinkError>>);

impl LinkRx for PollReceiver {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async { self.0.recv().await.unwrap_or(Err(LinkError::Closed(None))) })
    }
}
