//! A link over a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::header::{AUTHORIZATION, HeaderValue};
use plexus_proto::node::{Frame, MAX_FRAME, Received};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

use super::{Link, LinkError, LinkRx, LinkTx};

/// Small, because frames are short and a hub may have many links.
const BUFFER: usize = 16 << 10;

/// Why a WebSocket could not be opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WsOpenError {
    /// The hub was not reached.
    #[error("{0}")]
    Unreachable(String),
    /// The hub refused the credential.
    #[error("{0}")]
    Refused(String),
    /// An intermediary blocks WebSockets.
    #[error("{0}")]
    NoUpgrade(String),
}

/// A plain or encrypted connection.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

type Socket = WebSocketStream<Box<dyn ByteStream>>;

/// Opens a WebSocket to `url`, with scheme `ws` or `wss`.
///
/// # Errors
/// If it cannot be opened within the time limit.
pub async fn open(
    url: &Url,
    authorization: Option<&HeaderValue>,
    tls: &Arc<ClientConfig>,
    time_limit: Duration,
) -> Result<Link, WsOpenError> {
    let stream = timeout(time_limit, connect(url, tls))
        .await
        .unwrap_or_else(|_| Err("connecting took too long".to_owned()))
        .map_err(WsOpenError::Unreachable)?;
    let socket = timeout(time_limit, upgrade(url, authorization, stream))
        .await
        .unwrap_or_else(|_| Err(WsOpenError::NoUpgrade("the upgrade request was not answered".to_owned())))?;
    let (tx, rx) = socket.split();
    Ok(Link { tx: Box::new(WsTx(tx)), rx: Box::new(WsRx(rx)), transport: "ws" })
}

async fn connect(url: &Url, tls: &Arc<ClientConfig>) -> Result<Box<dyn ByteStream>, String> {
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(format!("{url} has no host"));
    };
    // The brackets around an IPv6 address belong to URL syntax only.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    // Frames are short and latency matters.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    if url.scheme() != "wss" {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| format!("the TLS handshake failed: {error}"))?))
}

async fn upgrade(
    url: &Url,
    authorization: Option<&HeaderValue>,
    stream: Box<dyn ByteStream>,
) -> Result<Socket, WsOpenError> {
    let invalid = |error: Error| WsOpenError::Unreachable(error.to_string());
    let mut request = url.as_str().into_client_request().map_err(invalid)?;
    if let Some(authorization) = authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization.clone());
    }
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        // Each frame is written when it is sent.
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MAX_FRAME)
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => Err(refusal(&answer)),
        Err(error) => Err(WsOpenError::NoUpgrade(error.to_string())),
    }
}

/// Interprets an answer that is not an upgrade.
fn refusal(answer: &http::Response<Option<Vec<u8>>>) -> WsOpenError {
    let body = answer.body().as_deref().unwrap_or_default();
    let message = super::refusal::message(answer.status(), body);
    match super::refusal::is_refusal(answer.status(), body) {
        true => WsOpenError::Refused(message),
        false => WsOpenError::NoUpgrade(message),
    }
}

struct WsTx(SplitSink<Socket, Message>);

impl LinkTx for WsTx {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        Box::pin(async move { self.0.send(Message::text(frame.text())).await.map_err(broken) })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // An error means that it is closed already.
            let _ = self.0.close().await;
        })
    }
}

struct WsRx(SplitStream<Socket>);

impl LinkRx for WsRx {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async move {
            loop {
                let message = match self.0.next().await {
                    Some(message) => message.map_err(broken)?,
                    None => return Err(LinkError::Closed(None)),
                };
                match message {
                    Message::Text(text) => {
                        return Frame::parse(&text).map_err(|error| LinkError::Invalid(error.to_string()));
                    }
                    Message::Close(frame) => return Err(closed(frame)),
                    Message::Binary(_) => {
                        return Err(LinkError::Invalid(
                            "the hub sent a binary message; frames are text".to_owned(),
                        ));
                    }
                    Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                }
            }
        })
    }
}

fn closed(frame: Option<CloseFrame>) -> LinkError {
    let Some(CloseFrame { code, reason }) = frame else { return LinkError::Closed(None) };
    super::refusal::from_close_code(code.into(), reason.as_str())
}

fn broken(error: Error) -> LinkError {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => LinkError::Closed(None),
        Error::Capacity(error) => LinkError::Invalid(error.to_string()),
        error => LinkError::Broken(error.to_string()),
    }
}
