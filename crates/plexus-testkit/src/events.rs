//! A reader of event streams over WebSocket.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use plexus_proto::{Event, StreamControl, StreamMessage, StreamResume};
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Receive buffer of a client that does not read: small, so that the hub notices.
const RECEIVE_BUFFER: u32 = 8 << 10;

/// A message of a stream, or its end.
#[derive(Debug, Clone, PartialEq)]
pub enum ReceivedMessage {
    Event(Event),
    Control(StreamControl),
    /// The hub closed the stream, with the number to resume from.
    Closed {
        code: u16,
        resume_after: Option<i64>,
    },
    /// The connection ended without a close message.
    Lost,
}

/// The request for a stream.
#[derive(Debug, Clone)]
pub struct EventRequest {
    address: SocketAddr,
    path: String,
    headers: Vec<(String, String)>,
}

impl EventRequest {
    /// `path` with its query, such as `/ws/events?after=0`.
    pub fn new(address: SocketAddr, path: impl Into<String>) -> Self {
        Self { address, path: path.into(), headers: Vec::new() }
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn request(&self) -> Request {
        let url = format!("ws://{}{}", self.address, self.path);
        let mut request = url.into_client_request().expect("a request");
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            request.headers_mut().insert(name, HeaderValue::from_str(value).expect("a header value"));
        }
        request
    }

    /// Opens the stream; panics if it is refused.
    pub async fn open(&self) -> EventReader {
        self.try_open().await.unwrap_or_else(|(status, body)| panic!("refused: {status} {body}"))
    }

    /// Opens the stream, or returns the status and body of the refusal.
    pub async fn try_open(&self) -> Result<EventReader, (u16, Value)> {
        let opened = async {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_recv_buffer_size(RECEIVE_BUFFER).expect("a small buffer");
            let stream = socket.connect(self.address).await.expect("a connection");
            tokio_tungstenite::client_async(self.request(), stream).await
        };
        match tokio::time::timeout(TIMEOUT, opened).await.expect("an answer in time") {
            Ok((socket, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|value| value.to_str().expect("ASCII").to_owned());
                Ok(EventReader { socket, protocol })
            }
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                Err((response.status().as_u16(), serde_json::from_slice(body).unwrap_or(Value::Null)))
            }
            Err(error) => panic!("no WebSocket: {error}"),
        }
    }
}

#[derive(Debug)]
pub struct EventReader {
    socket: WebSocketStream<TcpStream>,
    protocol: Option<String>,
}

impl EventReader {
    /// The subprotocol chosen by the hub.
    pub fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// The socket, for tests that send something.
    pub fn socket(&mut self) -> &mut WebSocketStream<TcpStream> {
        &mut self.socket
    }

    pub async fn next(&mut self) -> ReceivedMessage {
        tokio::time::timeout(TIMEOUT, self.receive()).await.expect("a message in time")
    }

    async fn receive(&mut self) -> ReceivedMessage {
        match self.text().await {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(StreamMessage::Event(event)) => ReceivedMessage::Event(event),
                Ok(StreamMessage::Control(control)) => ReceivedMessage::Control(control),
                Err(error) => panic!("not a message ({error}): {text}"),
            },
            Err(ended) => ended,
        }
    }

    /// The next message as text, or how the stream ended; for readers of large amounts.
    pub async fn text(&mut self) -> Result<Utf8Bytes, ReceivedMessage> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Close(frame))) => {
                    // 1005: the peer sent no code.
                    let code = frame.as_ref().map_or(1005, |frame| frame.code.into());
                    let resume = frame.and_then(|frame| serde_json::from_str(&frame.reason).ok());
                    let resume_after = resume.map(|StreamResume { resume_after }| resume_after);
                    return Err(ReceivedMessage::Closed { code, resume_after });
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(other)) => panic!("not for a client of events: {other:?}"),
                None | Some(Err(_)) => return Err(ReceivedMessage::Lost),
            }
        }
    }

    /// The next event; skips control messages and panics at the end of the stream.
    pub async fn event(&mut self) -> Event {
        loop {
            match self.next().await {
                ReceivedMessage::Event(event) => return event,
                ReceivedMessage::Control(_) => {}
                ended => panic!("no event but {ended:?}"),
            }
        }
    }

    /// The events until the stream has caught up.
    pub async fn until_live(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                ReceivedMessage::Event(event) => events.push(event),
                ReceivedMessage::Control(StreamControl::Live { .. }) => return events,
                ReceivedMessage::Control(_) => {}
                ended => panic!("not live but {ended:?}"),
            }
        }
    }

    /// How the stream ends; skips the preceding messages.
    pub async fn end(&mut self) -> ReceivedMessage {
        loop {
            let received = self.next().await;
            if matches!(received, ReceivedMessage::Closed { .. } | ReceivedMessage::Lost) {
                return received;
            }
        }
    }
}
