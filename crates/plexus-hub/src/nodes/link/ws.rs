//! A link over a WebSocket, with one text message per frame.

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::future::BoxFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use plexus_node::link::{Link, LinkError, LinkRx, LinkTx};
use plexus_proto::close_code::TOO_SLOW;
use plexus_proto::node::close::{FENCED, REFUSED};
use plexus_proto::node::{Frame, MAX_FRAME, Received};

use super::{LinkEnd, LinkProgress, Phase};

/// The subprotocol, for clients that must name one.
pub(crate) const PROTOCOL: &str = "plexus.node.v1";
/// Size of the read buffer; small, because links are many and mostly idle.
pub(crate) const READ_BUFFER: usize = 8 << 10;
/// Maximum length of the reason in a close frame.
const REASON: usize = 120;

/// A link over the socket.
pub(crate) fn link(socket: WebSocket, ending: &LinkProgress) -> Link {
    let (sink, stream) = socket.split();
    Link {
        tx: Box::new(WsSender { sink, ending: ending.clone() }),
        rx: Box::new(WsReceiver(stream)),
        transport: "ws",
    }
}

struct WsSender {
    sink: SplitSink<WebSocket, Message>,
    ending: LinkProgress,
}

impl LinkTx for WsSender {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        Box::pin(async move {
            // Put the whole message into the buffer first, so that a cancelled send leaves no partial message.
            let sent = self.sink.send(Message::Text(frame.text().into())).await;
            sent.map_err(|error| LinkError::Broken(error.to_string()))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        let end = match self.ending.phase() {
            Phase::Ended(end) => end,
            Phase::Opening | Phase::Linked(_) => LinkEnd::Closed,
        };
        let (code, reason) = match end {
            LinkEnd::Fenced => (FENCED, "another link of this node has replaced it"),
            LinkEnd::Refused => (REFUSED, "the credential is no longer valid"),
            LinkEnd::TooSlow => (TOO_SLOW, "the node does not read the frames sent to it"),
            LinkEnd::Policy => (close_code::POLICY, "the node violated the link protocol"),
            LinkEnd::Stopping => (close_code::AWAY, "the hub is stopping"),
            LinkEnd::Closed => (close_code::NORMAL, ""),
        };
        Box::pin(async move {
            let close = CloseFrame { code, reason: reason.into() };
            // An error means that the peer is gone, which is fine here.
            let _ = self.sink.send(Message::Close(Some(close))).await;
        })
    }
}

struct WsReceiver(SplitStream<WebSocket>);

impl LinkRx for WsReceiver {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Frame::parse(&text).map_err(|error| LinkError::Invalid(error.to_string()));
                    }
                    Some(Ok(Message::Binary(_))) => {
                        return Err(LinkError::Invalid(
                            "frames must be text messages, but this one is binary".to_owned(),
                        ));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(frame))) => {
                        let reason = frame.map(|frame| frame.reason.chars().take(REASON).collect::<String>());
                        return Err(LinkError::Closed(reason.filter(|reason| !reason.is_empty())));
                    }
                    Some(Err(error)) => return Err(broken(error)),
                    None => return Err(LinkError::Closed(None)),
                }
            }
        })
    }
}

/// A message over the size limit violates the protocol; all other errors are network errors.
fn broken(error: axum::Error) -> LinkError {
    let text = error.to_string();
    match text.contains("too long") || text.contains("too big") {
        true => LinkError::Invalid(format!("a frame has more than {MAX_FRAME} bytes")),
        false => LinkError::Broken(text),
    }
}
