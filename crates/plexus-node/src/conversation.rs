//! One link, from `hello` to its end.
//!
//! Three things go on at once, none of which waits for another: frames are received, what waits in the outbox is sent, and
//! somebody watches that the other side is still heard. Time is counted by the machine's own steady clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_proto::node::{Ack, Bye, CallResult, Dial, Frame, Heartbeat, Received, VERSIONS, Welcome};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::calls::{Calls, Taken};
use crate::capabilities::Capabilities;
use crate::link::{Link, LinkError, LinkRx, LinkTx, memory};
use crate::outbox::{Item, Outbox};

/// What a hub may ask for: more often would be work for nothing, more seldom would be no heartbeat.
const HEARTBEAT: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(300);
const MISSED: std::ops::RangeInclusive<u32> = 1..=20;
/// A link may take so long to close.
const CLOSE: Duration = Duration::from_secs(2);

/// What a conversation is about.
pub(crate) struct Conversation<'n> {
    pub(crate) calls: &'n Arc<Calls>,
    pub(crate) capabilities: &'n Capabilities,
    pub(crate) dial: Dial,
    /// For the hub to answer `hello`.
    pub(crate) patience: Duration,
    /// Cancelled when another link takes the place of this one.
    pub(crate) fence: CancellationToken,
}

/// How a link went.
#[derive(Debug)]
pub struct Served {
    /// What the hub said to `hello`; none where it did not come as far as that.
    pub welcome: Option<Welcome>,
    /// How long it lasted after that.
    pub lasted: Duration,
    /// The node itself has left, and does not come back.
    pub left: bool,
    /// Why it is no more.
    pub end: LinkError,
}

impl Conversation<'_> {
    pub(crate) async fn hold(&self, link: Link) -> Served {
        let Link { mut tx, mut rx, transport } = link;
        let greeted = tokio::select! {
            greeted = timeout(self.patience, self.greet(&mut *tx, &mut *rx)) => greeted.unwrap_or_else(|_| {
                Err(LinkError::Broken(format!("the hub did not answer within {} s", self.patience.as_secs())))
            }),
            () = self.fence.cancelled() => Err(LinkError::Fenced),
        };
        let welcome = match greeted {
            Ok(welcome) => welcome,
            Err(end) => {
                self.calls.not_welcomed();
                return Served { welcome: None, lasted: Duration::ZERO, left: false, end };
            }
        };
        match transport {
            memory::TRANSPORT => tracing::debug!(name = %welcome.name, "linked to the hub of this process"),
            _ => tracing::info!(name = %welcome.name, epoch = welcome.epoch, transport, "linked to the hub"),
        }
        let (outbox, begun) = (Arc::new(Outbox::default()), Instant::now());
        let pulse = Pulse::new(&welcome);
        self.calls.attach(outbox.clone(), &welcome.calls);
        let mut left = false;
        // In no fixed order: a hub that talks without a pause must not keep the node from answering.
        let end = tokio::select! {
            end = self.receive(&mut *rx, &outbox, &pulse) => end,
            end = self.send(&mut *tx, &outbox, &pulse) => end.unwrap_or_else(|reason| {
                left = true;
                LinkError::Closed(Some(reason))
            }),
            end = pulse.watch(&outbox) => end,
            end = self.tell_changes(&outbox) => end,
            () = self.fence.cancelled() => LinkError::Fenced,
        };
        self.calls.detach(&outbox);
        let _ = timeout(CLOSE, tx.close()).await;
        if let left_out @ 1.. = outbox.left_out() {
            tracing::info!(
                events = left_out,
                "events were left out, for the link was slower than what they tell of"
            );
        }
        Served { welcome: Some(welcome), lasted: begun.elapsed(), left, end }
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
                        "the hub speaks version {} of the link, this node {VERSIONS:?}: update the older of the two",
                        welcome.version
                    );
                    return Err(LinkError::Invalid(message));
                }
                Received::Frame(Frame::Bye(Bye { reason })) => return Err(parted(rx, reason).await),
                // Only what is alive sends it, and it wants no answer before the greeting.
                Received::Frame(Frame::Ping(_) | Frame::Pong(_)) => {}
                Received::Frame(frame) => {
                    return Err(LinkError::Invalid(format!("the hub sent {} before welcome", frame.kind())));
                }
                Received::Unknown(kind) => unknown(&kind),
            }
        }
    }

    async fn receive(&self, rx: &mut dyn LinkRx, outbox: &Outbox, pulse: &Pulse) -> LinkError {
        loop {
            let frame = match rx.recv().await {
                Ok(Received::Frame(frame)) => frame,
                Ok(Received::Unknown(kind)) => {
                    pulse.heard();
                    unknown(&kind);
                    continue;
                }
                Err(end) => return end,
            };
            pulse.heard();
            match frame {
                Frame::Call(call) => {
                    if let Taken::Refused(result) = self.calls.take(call) {
                        outbox.refuse(result).await;
                    }
                }
                Frame::Cancel(cancel) => self.calls.cancel(cancel.call_id, cancel.reason),
                Frame::Ack(Ack { call_id }) => self.calls.confirmed(call_id),
                Frame::Ping(Heartbeat { n }) => outbox.pong(n),
                Frame::Pong(_) => {}
                Frame::Bye(Bye { reason }) => return parted(rx, reason).await,
                Frame::Hello(_) | Frame::Welcome(_) | Frame::Event(_) | Frame::Result(_) => {
                    tracing::debug!(kind = frame.kind(), "the hub sent a frame that is not for a node");
                }
            }
        }
    }

    /// Err: the node has said goodbye, with these words.
    async fn send(&self, tx: &mut dyn LinkTx, outbox: &Outbox, pulse: &Pulse) -> Result<LinkError, String> {
        loop {
            let item = outbox.next().await;
            let (frame, sent) = match item {
                Item::Pong(n) => (Frame::Pong(Heartbeat { n }), None),
                Item::Ping(n) => (Frame::Ping(Heartbeat { n }), None),
                Item::Changed => {
                    // Its calls are not looked at on a link that is up.
                    let stopping = self.calls.is_stopping();
                    (Frame::Hello(self.capabilities.hello(self.dial, Vec::new(), stopping)), None)
                }
                Item::Ack(call_id) => (Frame::Ack(Ack { call_id }), None),
                Item::Refused(result) => (Frame::Result(*result), None),
                Item::Event(event) => (Frame::Event(event), None),
                Item::Result(call_id) => {
                    // It was confirmed or given up in the meantime.
                    let Some(outcome) = self.calls.result(call_id).await else { continue };
                    (Frame::Result(CallResult { call_id, outcome }), Some(call_id))
                }
                Item::Bye(reason) => {
                    let bye = Frame::Bye(Bye { reason: reason.clone() });
                    let _ = timeout(pulse.patience(), tx.send(&bye)).await;
                    return Err(reason);
                }
            };
            match timeout(pulse.patience(), tx.send(&frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => return Ok(end),
                Err(_) => return Ok(LinkError::Broken("the hub takes nothing any more".to_owned())),
            }
            if let Some(call_id) = sent {
                self.calls.sent(call_id);
            }
        }
    }

    async fn tell_changes(&self, outbox: &Outbox) -> LinkError {
        let mut changes = self.capabilities.changes();
        loop {
            changes.next().await;
            outbox.changed();
        }
    }
}

/// The hub has said goodbye. Whether it wants the node back is said by what carries the link, when that ends.
async fn parted(rx: &mut dyn LinkRx, reason: String) -> LinkError {
    let end = async {
        loop {
            if let Err(end) = rx.recv().await {
                return end;
            }
        }
    };
    match timeout(CLOSE, end).await {
        Ok(end @ (LinkError::Fenced | LinkError::Refused(_))) => end,
        _ => LinkError::Closed(Some(reason)),
    }
}

fn unknown(kind: &str) {
    tracing::info!(kind, "a frame of a type that this version does not know was passed over");
}

/// Whether the hub is heard. A link can be open and dead: then nothing tells of it but silence.
struct Pulse {
    begun: Instant,
    /// Milliseconds from then to when the hub was last heard.
    heard: AtomicU64,
    every: Duration,
    missed: u32,
}

impl Pulse {
    fn new(welcome: &Welcome) -> Self {
        let every = Duration::from_millis(welcome.heartbeat_ms).clamp(*HEARTBEAT.start(), *HEARTBEAT.end());
        let missed = welcome.missed.clamp(*MISSED.start(), *MISSED.end());
        Self { begun: Instant::now(), heard: AtomicU64::new(0), every, missed }
    }

    fn heard(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    /// So long nothing may be heard: the heartbeats that may be missed, and the one that is late.
    fn patience(&self) -> Duration {
        self.every * (self.missed + 1)
    }

    /// Ends when the hub was not heard for too long. One that is late is asked.
    async fn watch(&self, outbox: &Outbox) -> LinkError {
        let mut asked = 0;
        loop {
            let last = self.begun + Duration::from_millis(self.heard.load(Ordering::Relaxed));
            let silent = last.elapsed();
            if silent >= self.patience() {
                let message = format!("the hub was not heard for {} ms", silent.as_millis());
                return LinkError::Broken(message);
            }
            let late = self.every + self.every / 2;
            if silent >= late {
                asked += 1;
                outbox.ping(asked);
                sleep(self.every.min(self.patience() - silent)).await;
            } else {
                sleep(late - silent).await;
            }
        }
    }
}
