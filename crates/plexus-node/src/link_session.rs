//! One link from `hello` to its end.
//!
//! Three things run concurrently without waiting for each other: receiving frames, sending queued ones, and checking
//! that the hub is still alive. Time is measured with the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_proto::node::{Ack, Bye, CallResult, Dial, Frame, Heartbeat, Received, VERSIONS, Welcome};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::calls::{Acceptance, Calls};
use crate::capabilities::Capabilities;
use crate::frame_queue::{FrameQueue, QueuedFrame};
use crate::link::{Link, LinkError, LinkRx, LinkTx, memory};

/// Accepted heartbeat intervals and numbers of missed heartbeats; other values of the hub are clamped.
const HEARTBEAT: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(300);
const MAX_MISSED: std::ops::RangeInclusive<u32> = 1..=20;
/// Time limit for closing a link.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct LinkSession<'n> {
    pub(crate) calls: &'n Arc<Calls>,
    pub(crate) capabilities: &'n Capabilities,
    pub(crate) dial: Dial,
    /// Time limit for the hub's answer to `hello`.
    pub(crate) greeting_timeout: Duration,
    /// Cancelled when another link replaces this one.
    pub(crate) fence: CancellationToken,
}

/// What happened on a link that has ended.
#[derive(Debug)]
pub struct LinkSummary {
    /// The hub's answer to `hello`, if there was one.
    pub welcome: Option<Welcome>,
    /// Time from the answer to the end.
    pub duration: Duration,
    /// The node has left the hub and does not reconnect.
    pub left: bool,
    /// Why the link ended.
    pub end: LinkError,
}

impl LinkSession<'_> {
    pub(crate) async fn run(&self, link: Link) -> LinkSummary {
        let Link { mut tx, mut rx, transport } = link;
        let greeted = tokio::select! {
            greeted = timeout(self.greeting_timeout, self.greet(&mut *tx, &mut *rx)) => greeted.unwrap_or_else(|_| {
                Err(LinkError::Broken(format!("the hub did not answer within {} s", self.greeting_timeout.as_secs())))
            }),
            () = self.fence.cancelled() => Err(LinkError::Fenced),
        };
        let welcome = match greeted {
            Ok(welcome) => welcome,
            Err(end) => {
                self.calls.handshake_failed();
                return LinkSummary { welcome: None, duration: Duration::ZERO, left: false, end };
            }
        };
        match transport {
            memory::TRANSPORT => tracing::debug!(name = %welcome.name, "linked to the hub of this process"),
            _ => tracing::info!(name = %welcome.name, epoch = welcome.epoch, transport, "linked to the hub"),
        }
        let (frames, started) = (Arc::new(FrameQueue::default()), Instant::now());
        let liveness = Liveness::new(&welcome);
        self.calls.attach(frames.clone(), &welcome.calls);
        let mut left = false;
        // Not biased: a hub that sends without a pause must not keep the node from answering.
        let end = tokio::select! {
            end = self.receive(&mut *rx, &frames, &liveness) => end,
            end = self.send(&mut *tx, &frames, &liveness) => end.unwrap_or_else(|reason| {
                left = true;
                LinkError::Closed(Some(reason))
            }),
            end = liveness.watch(&frames) => end,
            end = self.send_changes(&frames) => end,
            () = self.fence.cancelled() => LinkError::Fenced,
        };
        self.calls.detach(&frames);
        let _ = timeout(CLOSE_TIMEOUT, tx.close()).await;
        if let dropped @ 1.. = frames.dropped_events() {
            tracing::info!(events = dropped, "events were dropped because the link was too slow");
        }
        LinkSummary { welcome: Some(welcome), duration: started.elapsed(), left, end }
    }

    async fn greet(&self, tx: &mut dyn LinkTx, rx: &mut dyn LinkRx) -> Result<Welcome, LinkError> {
        let hello = self.capabilities.hello(self.dial, self.calls.in_flight(), self.calls.is_stopping());
        tx.send(&Frame::Hello(hello)).await?;
        loop {
            match rx.recv().await? {
                Received::Frame(Frame::Welcome(welcome)) if VERSIONS.contains(&welcome.version) => {
                    return Ok(welcome);
                }
                Received::Frame(Frame::Welcome(welcome)) => {
                    let message = format!(
                        "the hub uses version {} of the link protocol, this node {VERSIONS:?}: update the older of the two",
                        welcome.version
                    );
                    return Err(LinkError::Invalid(message));
                }
                Received::Frame(Frame::Bye(Bye { reason })) => return Err(closed_by_hub(rx, reason).await),
                // A heartbeat needs no answer before `welcome`.
                Received::Frame(Frame::Ping(_) | Frame::Pong(_)) => {}
                Received::Frame(frame) => {
                    return Err(LinkError::Invalid(format!("the hub sent {} before welcome", frame.kind())));
                }
                Received::Unknown(kind) => unknown(&kind),
            }
        }
    }

    async fn receive(&self, rx: &mut dyn LinkRx, frames: &FrameQueue, liveness: &Liveness) -> LinkError {
        loop {
            let frame = match rx.recv().await {
                Ok(Received::Frame(frame)) => frame,
                Ok(Received::Unknown(kind)) => {
                    liveness.received();
                    unknown(&kind);
                    continue;
                }
                Err(end) => return end,
            };
            liveness.received();
            match frame {
                Frame::Call(call) => {
                    if let Acceptance::Refused(result) = self.calls.accept(call) {
                        frames.refuse(result).await;
                    }
                }
                Frame::Cancel(cancel) => self.calls.cancel(cancel.call_id, cancel.reason),
                Frame::Ack(Ack { call_id }) => self.calls.confirmed(call_id),
                Frame::Ping(Heartbeat { n }) => frames.pong(n),
                Frame::Pong(_) => {}
                Frame::Bye(Bye { reason }) => return closed_by_hub(rx, reason).await,
                Frame::Hello(_) | Frame::Welcome(_) | Frame::Event(_) | Frame::Result(_) => {
                    tracing::debug!(kind = frame.kind(), "the hub sent a frame that is not for a node");
                }
            }
        }
    }

    /// Sends queued frames until the link ends. An error is the reason of a `bye` that the node has sent.
    async fn send(
        &self,
        tx: &mut dyn LinkTx,
        frames: &FrameQueue,
        liveness: &Liveness,
    ) -> Result<LinkError, String> {
        loop {
            let item = frames.next().await;
            let (frame, sent) = match item {
                QueuedFrame::Pong(n) => (Frame::Pong(Heartbeat { n }), None),
                QueuedFrame::Ping(n) => (Frame::Ping(Heartbeat { n }), None),
                QueuedFrame::Changed => {
                    // A hub ignores the calls in a later `hello`.
                    let stopping = self.calls.is_stopping();
                    (Frame::Hello(self.capabilities.hello(self.dial, Vec::new(), stopping)), None)
                }
                QueuedFrame::Ack(call_id) => (Frame::Ack(Ack { call_id }), None),
                QueuedFrame::Refused(result) => (Frame::Result(*result), None),
                QueuedFrame::Event(event) => (Frame::Event(event), None),
                QueuedFrame::Result(call_id) => {
                    // Confirmed or discarded in the meantime.
                    let Some(outcome) = self.calls.result(call_id).await else { continue };
                    (Frame::Result(CallResult { call_id, outcome }), Some(call_id))
                }
                QueuedFrame::Bye(reason) => {
                    let bye = Frame::Bye(Bye { reason: reason.clone() });
                    let _ = timeout(liveness.silence_limit(), tx.send(&bye)).await;
                    return Err(reason);
                }
            };
            match timeout(liveness.silence_limit(), tx.send(&frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => return Ok(end),
                Err(_) => return Ok(LinkError::Broken("the hub does not accept frames any more".to_owned())),
            }
            if let Some(call_id) = sent {
                self.calls.sent(call_id);
            }
        }
    }

    async fn send_changes(&self, frames: &FrameQueue) -> LinkError {
        let mut changes = self.capabilities.changes();
        loop {
            changes.next().await;
            frames.changed();
        }
    }
}

/// The hub has sent `bye`. Whether the node may reconnect is known when the transport ends.
async fn closed_by_hub(rx: &mut dyn LinkRx, reason: String) -> LinkError {
    let end = async {
        loop {
            if let Err(end) = rx.recv().await {
                return end;
            }
        }
    };
    match timeout(CLOSE_TIMEOUT, end).await {
        Ok(end @ (LinkError::Fenced | LinkError::Refused(_))) => end,
        _ => LinkError::Closed(Some(reason)),
    }
}

fn unknown(kind: &str) {
    tracing::info!(kind, "ignored a frame of an unknown type; the hub may be newer than this node");
}

/// Detects a dead link by its silence; a connection can stay open when the other side is gone.
struct Liveness {
    started: Instant,
    /// Milliseconds from `started` to the last received frame.
    last_received: AtomicU64,
    interval: Duration,
    missed: u32,
}

impl Liveness {
    fn new(welcome: &Welcome) -> Self {
        let interval =
            Duration::from_millis(welcome.heartbeat_ms).clamp(*HEARTBEAT.start(), *HEARTBEAT.end());
        let missed = welcome.missed.clamp(*MAX_MISSED.start(), *MAX_MISSED.end());
        Self { started: Instant::now(), last_received: AtomicU64::new(0), interval, missed }
    }

    fn received(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_received.store(now, Ordering::Relaxed);
    }

    /// The longest allowed silence: the heartbeats that may be missed, and one more interval.
    fn silence_limit(&self) -> Duration {
        self.interval * (self.missed + 1)
    }

    /// Ends when the hub has been silent for too long; sends pings before that.
    async fn watch(&self, frames: &FrameQueue) -> LinkError {
        let mut pings = 0;
        loop {
            let last = self.started + Duration::from_millis(self.last_received.load(Ordering::Relaxed));
            let silent = last.elapsed();
            if silent >= self.silence_limit() {
                let message = format!("nothing was received from the hub for {} ms", silent.as_millis());
                return LinkError::Broken(message);
            }
            let late = self.interval + self.interval / 2;
            if silent >= late {
                pings += 1;
                frames.ping(pings);
                sleep(self.interval.min(self.silence_limit() - silent)).await;
            } else {
                sleep(late - silent).await;
            }
        }
    }
}
