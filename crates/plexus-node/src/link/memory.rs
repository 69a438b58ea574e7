//! A link within one process: the hub and the node of its own machine.

use futures_util::future::BoxFuture;
use plexus_proto::node::{Frame, Received};
use tokio::sync::mpsc;

use super::{Link, LinkError, LinkRx, LinkTx};

/// What this transport is called.
pub(crate) const TRANSPORT: &str = "memory";

/// Frames that are under way in one direction. Who sends more waits until the other side has taken one.
const UNDER_WAY: usize = 64;

/// Both ends of one link.
#[must_use]
pub fn pair() -> (Link, Link) {
    let (to_second, from_first) = mpsc::channel(UNDER_WAY);
    let (to_first, from_second) = mpsc::channel(UNDER_WAY);
    (end(to_second, from_second), end(to_first, from_first))
}

fn end(tx: mpsc::Sender<Frame>, rx: mpsc::Receiver<Frame>) -> Link {
    Link { tx: Box::new(Sending(Some(tx))), rx: Box::new(Receiving(rx)), transport: TRANSPORT }
}

/// None once it was closed.
struct Sending(Option<mpsc::Sender<Frame>>);

impl LinkTx for Sending {
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

struct Receiving(mpsc::Receiver<Frame>);

impl LinkRx for Receiving {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async { self.0.recv().await.map(Received::Frame).ok_or(LinkError::Closed(None)) })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use plexus_proto::node::{Bye, Frame, Heartbeat, Received};

    use super::{UNDER_WAY, pair};
    use crate::link::LinkError;

    fn ping(n: u64) -> Frame {
        Frame::Ping(Heartbeat { n })
    }

    #[tokio::test]
    async fn frames_come_in_order_and_what_was_sent_is_delivered_before_the_end() {
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
    async fn who_sends_waits_for_who_does_not_receive() {
        let (mut hub, mut node) = pair();
        for n in 0..UNDER_WAY as u64 {
            hub.tx.send(&ping(n)).now_or_never().expect("there is room").unwrap();
        }
        assert!(hub.tx.send(&ping(99)).now_or_never().is_none(), "there is no room");
        node.rx.recv().await.unwrap();
        hub.tx.send(&ping(99)).now_or_never().expect("there is room again").unwrap();
    }
}
