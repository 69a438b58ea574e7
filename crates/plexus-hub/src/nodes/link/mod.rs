//! What carries the frames of a link, on the hub's side.

pub(crate) mod poll;
pub(crate) mod ws;

use std::sync::Arc;

use tokio::sync::watch;

/// Why the hub ended a link, to be said in the words of what carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// A newer link of the same machine has taken its place.
    Fenced,
    /// The credential is not good (any more), or the machine was removed.
    Refused,
    /// The machine does not take what is sent to it.
    TooSlow,
    /// It said what it must not.
    Policy,
    /// The hub stops.
    Stopping,
    /// The other side is gone.
    Closed,
}

/// How far a link has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    /// It is the one of its machine, with this epoch.
    Linked(u64),
    Ended(LinkEnd),
}

/// Tells what carries a link how it goes with it. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Ending(Arc<watch::Sender<Phase>>);

impl Ending {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Opening)))
    }

    pub(super) fn linked(&self, epoch: u64) {
        self.0.send_replace(Phase::Linked(epoch));
    }

    pub(super) fn ended(&self, end: LinkEnd) {
        self.0.send_replace(Phase::Ended(end));
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    pub(crate) fn follow(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }
}
