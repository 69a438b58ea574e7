//! A link within one process, between a hub and the node of its own machine.

use futures_util::future::BoxFuture;
use plexus_proto::node::{Frame, Received};
use tokio::sync::mpsc;

use super::{Link, LinkError, LinkRx, LinkTx};

/// Name of this transport.
pub(crate) const TRANSPORT: &str = "memory";

/// Frames in flight per direction; a sender of more waits.
const IN_FLIGHT: usize = 64;

/// Both ends of one link.
#[must_use]
pub fn pair() -> (Link, Link) {
    let (to_second, from_first) = mpsc::channel(IN_FLIGHT);
    let (to_first, from_second) = mpsc::channel(IN_FLIGHT);
    (end(to_second, from_second), end(to_first, from_first))
}

fn end(tx: mpsc::Sender<Frame>, rx: mpsc::Receiver<Frame>) -> Link {
    Link { tx: Box::new(MemorySender(Some(tx))), rx: Box::new(MemoryReceiver(rx)), transport: TRANSPORT }
}

/// None after it was closed.
struct MemorySender(Option<mpsc::Sender<Frame>>);

impl LinkTx for MemorySender {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        Box::pin(async move {
            let Some(tx) = &self.0 else { return Err(LinkError::Closed(None)) };
            tx.send(frame.clone()).await.map_err(|_| LinkError::Closed(None))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        self.0 = None;
        Box::pin(async {})
    }
}

struct MemoryReceiver(mpsc::Receiver<Frame>);

impl LinkRx for MemoryReceiver {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async { self.0.recv().await.map(Received::Frame).ok_or(LinkError::Closed(None)) })
    }
}

#[cfg(test)]
mod tests;
