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
mod tests {
    use futures_util::FutureExt;
    use plexus_proto::node::{Bye, Frame, Heartbeat, Received};

    use super::{IN_FLIGHT, pair};
    use crate::link::LinkError;

    fn ping(n: u64) -> Frame {
        Frame::Ping(Heartbeat { n })
    }

    #[tokio::test]
    async fn frames_are_delivered_in_order_before_the_link_ends() {
        let (mut hub, mut node) = pair();
        for n in 0..3 {
            hub.tx.send(&ping(n)).await.unwrap();
        }
        hub.tx.send(&Frame::Bye(Bye { reason: "done".to_owned() })).await.unwrap();
        hub.tx.close().await;
        for n in 0..3 {
            let Ok(Received::Frame(Frame::Ping(ping))) = node.rx.recv().await else { panic!("no ping {n}") };
            assert_eq!(ping.n, n);
        }
        assert!(matches!(node.rx.recv().await, Ok(Received::Frame(Frame::Bye(_)))));
        assert_eq!(node.rx.recv().await.unwrap_err(), LinkError::Closed(None));
    }

    #[tokio::test]
    async fn sender_waits_for_a_slow_receiver() {
        let (mut hub, mut node) = pair();
        for n in 0..IN_FLIGHT as u64 {
            hub.tx.send(&ping(n)).now_or_never().expect("there is room").unwrap();
        }
        assert!(hub.tx.send(&ping(99)).now_or_never().is_none(), "there is no room");
        node.rx.recv().await.unwrap();
        hub.tx.send(&ping(99)).now_or_never().expect("there is room again").unwrap();
    }
}
