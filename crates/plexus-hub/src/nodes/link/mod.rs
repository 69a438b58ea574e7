//! Transports for the frames of a link, on the hub's side.

pub(crate) mod poll;
pub(crate) mod ws;

use std::sync::Arc;

use tokio::sync::watch;

/// Why the hub ended a link; each transport has its own way to report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// A newer link of the same machine has replaced it.
    Fenced,
    /// The credential is not valid (any more), or the machine was removed.
    Refused,
    /// The machine does not read the frames sent to it.
    TooSlow,
    /// The machine violated the protocol.
    Policy,
    /// The hub is stopping.
    Stopping,
    /// The peer is gone.
    Closed,
}

/// The progress of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    /// It is the current link of its machine, with this epoch.
    Linked(u64),
    Ended(LinkEnd),
}

/// Reports the progress of a link to its transport. Cheap to clone; all clones share one state.
#[derive(Debug, Clone)]
pub(crate) struct LinkProgress(Arc<watch::Sender<Phase>>);

impl LinkProgress {
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
