//! The queue of frames to be sent over one link.
//!
//! Calls never wait for the link: they queue their frames here. If too many events are queued, further ones are
//! dropped and counted. Acknowledgements and results are never dropped; only the call ids are queued, not the
//! results, so a hub that does not read costs no memory. The order is kept: the events of a call are sent before its
//! result.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_proto::CallId;
use plexus_proto::node::{CallEvent, CallResult};
use tokio::sync::Notify;

/// Maximum number of queued events.
const MAX_EVENTS: usize = 256;
/// Maximum bytes of their payloads.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// Maximum number of queued refusals; further ones wait.
const MAX_REFUSALS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    queue: Mutex<Queue>,
    /// An item was queued.
    queued: Notify,
    /// A refusal was sent.
    refusal_sent: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<QueuedFrame>,
    /// Calls whose results are queued; each is queued once, however often the hub asks.
    results: HashSet<CallId>,
    events: usize,
    event_bytes: usize,
    refusals: usize,
    /// Only the newest heartbeats count.
    pong: Option<u64>,
    ping: Option<u64>,
    /// The node's capabilities have changed.
    changed: bool,
    bye: Option<String>,
    dropped_events: u64,
}

/// A frame to be sent.
#[derive(Debug)]
pub(crate) enum QueuedFrame {
    Pong(u64),
    Ping(u64),
    /// An updated `hello`.
    Changed,
    /// A call was accepted.
    Ack(CallId),
    /// The result of a call, which is read when it is sent.
    Result(CallId),
    /// The refusal of a call that is not held.
    Refused(Box<CallResult>),
    Event(CallEvent),
    /// The last frame.
    Bye(String),
}

impl FrameQueue {
    pub(crate) fn ack(&self, call: CallId) {
        self.lock_queue().items.push_back(QueuedFrame::Ack(call));
        self.queued.notify_one();
    }

    pub(crate) fn result(&self, call: CallId) {
        let mut queue = self.lock_queue();
        if queue.results.insert(call) {
            queue.items.push_back(QueuedFrame::Result(call));
        }
        drop(queue);
        self.queued.notify_one();
    }

    /// Returns false if the event was dropped.
    pub(crate) fn event(&self, event: CallEvent) -> bool {
        let mut queue = self.lock_queue();
        let bytes = queue.event_bytes + event.payload.get().len();
        if queue.events == MAX_EVENTS || bytes > MAX_EVENT_BYTES {
            queue.dropped_events += 1;
            return false;
        }
        queue.events += 1;
        queue.event_bytes = bytes;
        queue.items.push_back(QueuedFrame::Event(event));
        drop(queue);
        self.queued.notify_one();
        true
    }

    /// Waits while too many refusals are queued, so that a hub that does not read is not read from.
    pub(crate) async fn refuse(&self, result: CallResult) {
        loop {
            let refusal_sent = self.refusal_sent.notified();
            {
                let mut queue = self.lock_queue();
                if queue.refusals < MAX_REFUSALS {
                    queue.refusals += 1;
                    queue.items.push_back(QueuedFrame::Refused(Box::new(result)));
                    break;
                }
            }
            refusal_sent.await;
        }
        self.queued.notify_one();
    }

    pub(crate) fn pong(&self, n: u64) {
        self.lock_queue().pong = Some(n);
        self.queued.notify_one();
    }

    pub(crate) fn ping(&self, n: u64) {
        self.lock_queue().ping = Some(n);
        self.queued.notify_one();
    }

    pub(crate) fn changed(&self) {
        self.lock_queue().changed = true;
        self.queued.notify_one();
    }

    /// Queues `bye`, to be sent after everything else.
    pub(crate) fn bye(&self, reason: &str) {
        self.lock_queue().bye = Some(reason.to_owned());
        self.queued.notify_one();
    }

    /// Number of dropped events so far.
    pub(crate) fn dropped_events(&self) -> u64 {
        self.lock_queue().dropped_events
    }

    /// The next frame to be sent. For one caller at a time.
    pub(crate) async fn next(&self) -> QueuedFrame {
        loop {
            if let Some(item) = self.take() {
                return item;
            }
            self.queued.notified().await;
        }
    }

    fn take(&self) -> Option<QueuedFrame> {
        let mut queue = self.lock_queue();
        // Heartbeats first: they are short, and useless when late.
        if let Some(n) = queue.pong.take() {
            return Some(QueuedFrame::Pong(n));
        }
        if let Some(n) = queue.ping.take() {
            return Some(QueuedFrame::Ping(n));
        }
        if std::mem::take(&mut queue.changed) {
            return Some(QueuedFrame::Changed);
        }
        let Some(item) = queue.items.pop_front() else { return queue.bye.take().map(QueuedFrame::Bye) };
        match &item {
            QueuedFrame::Event(event) => {
                queue.events -= 1;
                queue.event_bytes -= event.payload.get().len();
            }
            QueuedFrame::Result(call) => {
                queue.results.remove(call);
            }
            QueuedFrame::Refused(_) => {
                queue.refusals -= 1;
                self.refusal_sent.notify_one();
            }
            _ => {}
        }
        Some(item)
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
