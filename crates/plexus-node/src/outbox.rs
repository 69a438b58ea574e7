//! What waits to be sent over one link.
//!
//! Calls never wait for the link: what they say is put here and taken by whoever sends. An event is left out, and
//! counted, where too many wait. Confirmations and results are never left out; they are names of calls and not the results
//! themselves, so that a hub that takes nothing makes nothing grow. Everything goes in the order in which it was put here:
//! what a call told while it ran comes before its result.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_proto::CallId;
use plexus_proto::node::{CallEvent, CallResult};
use tokio::sync::Notify;

/// Events that may wait.
const EVENTS: usize = 256;
/// Bytes of their payloads.
const EVENT_BYTES: usize = 1 << 20;
/// Refusals that may wait; who makes more waits until some were sent.
const REFUSALS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    /// Something was put here.
    news: Notify,
    /// A refusal was taken.
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Calls whose results are among them: once is enough, however often the hub asks.
    results: HashSet<CallId>,
    events: usize,
    event_bytes: usize,
    refusals: usize,
    /// Only the newest matters.
    pong: Option<u64>,
    ping: Option<u64>,
    /// What the node can do has changed.
    changed: bool,
    bye: Option<String>,
    /// Events that were left out.
    left_out: u64,
}

/// What is to be sent next.
#[derive(Debug)]
pub(crate) enum Item {
    Pong(u64),
    Ping(u64),
    /// `hello`, as it is now.
    Changed,
    /// The call is accepted.
    Ack(CallId),
    /// The result that the call has.
    Result(CallId),
    /// The end of a call that is not held.
    Refused(Box<CallResult>),
    Event(CallEvent),
    /// The last one.
    Bye(String),
}

impl Outbox {
    pub(crate) fn ack(&self, call: CallId) {
        self.queue().items.push_back(Item::Ack(call));
        self.news.notify_one();
    }

    pub(crate) fn result(&self, call: CallId) {
        let mut queue = self.queue();
        if queue.results.insert(call) {
            queue.items.push_back(Item::Result(call));
        }
        drop(queue);
        self.news.notify_one();
    }

    /// False: it was left out.
    pub(crate) fn event(&self, event: CallEvent) -> bool {
        let mut queue = self.queue();
        let bytes = queue.event_bytes + event.payload.get().len();
        if queue.events == EVENTS || bytes > EVENT_BYTES {
            queue.left_out += 1;
            return false;
        }
        queue.events += 1;
        queue.event_bytes = bytes;
        queue.items.push_back(Item::Event(event));
        drop(queue);
        self.news.notify_one();
        true
    }

    /// Waits while many refusals were not sent yet: a hub that does not listen is not listened to.
    pub(crate) async fn refuse(&self, result: CallResult) {
        loop {
            let room = self.room.notified();
            {
                let mut queue = self.queue();
                if queue.refusals < REFUSALS {
                    queue.refusals += 1;
                    queue.items.push_back(Item::Refused(Box::new(result)));
                    break;
                }
            }
            room.await;
        }
        self.news.notify_one();
    }

    pub(crate) fn pong(&self, n: u64) {
        self.queue().pong = Some(n);
        self.news.notify_one();
    }

    pub(crate) fn ping(&self, n: u64) {
        self.queue().ping = Some(n);
        self.news.notify_one();
    }

    pub(crate) fn changed(&self) {
        self.queue().changed = true;
        self.news.notify_one();
    }

    /// What waits now is sent, then this.
    pub(crate) fn bye(&self, reason: &str) {
        self.queue().bye = Some(reason.to_owned());
        self.news.notify_one();
    }

    /// Events that were left out so far.
    pub(crate) fn left_out(&self) -> u64 {
        self.queue().left_out
    }

    /// What is to be sent next; one at a time may ask.
    pub(crate) async fn next(&self) -> Item {
        loop {
            if let Some(item) = self.take() {
                return item;
            }
            self.news.notified().await;
        }
    }

    fn take(&self) -> Option<Item> {
        let mut queue = self.queue();
        // A sign of life first: it is short, and late it is worth nothing.
        if let Some(n) = queue.pong.take() {
            return Some(Item::Pong(n));
        }
        if let Some(n) = queue.ping.take() {
            return Some(Item::Ping(n));
        }
        if std::mem::take(&mut queue.changed) {
            return Some(Item::Changed);
        }
        let Some(item) = queue.items.pop_front() else { return queue.bye.take().map(Item::Bye) };
        match &item {
            Item::Event(event) => {
                queue.events -= 1;
                queue.event_bytes -= event.payload.get().len();
            }
            Item::Result(call) => {
                queue.results.remove(call);
            }
            Item::Refused(_) => {
                queue.refusals -= 1;
                self.room.notify_one();
            }
            _ => {}
        }
        Some(item)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
