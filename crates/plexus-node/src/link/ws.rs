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

/// Frames are short, and there may be many links.
const BUFFER: usize = 16 << 10;

/// Why there is no WebSocket.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// The hub is not reached at all.
    #[error("{0}")]
    Unreachable(String),
    /// It is reached, and does not take the credential.
    #[error("{0}")]
    Refused(String),
    /// It is reached, and something on the way does not let WebSockets through.
    #[error("{0}")]
    NoUpgrade(String),
}

/// Carries bytes, in the open or encrypted.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

type Socket = WebSocketStream<Box<dyn Wire>>;

/// Dials `url`, of scheme `ws` or `wss`.
///
/// # Errors
/// When there is no WebSocket to be had within `patience`.
pub async fn open(
    url: &Url,
    authorization: Option<&HeaderValue>,
    tls: &Arc<ClientConfig>,
    patience: Duration,
) -> Result<Link, Unopened> {
    let wire = timeout(patience, connect(url, tls))
        .await
        .unwrap_or_else(|_| Err("it took too long to connect".to_owned()))
        .map_err(Unopened::Unreachable)?;
    let socket = timeout(patience, upgrade(url, authorization, wire))
        .await
        .unwrap_or_else(|_| Err(Unopened::NoUpgrade("the hub did not answer the upgrade".to_owned())))?;
    let (tx, rx) = socket.split();
    Ok(Link { tx: Box::new(Sending(tx)), rx: Box::new(Receiving(rx)), transport: "ws" })
}

async fn connect(url: &Url, tls: &Arc<ClientConfig>) -> Result<Box<dyn Wire>, String> {
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(format!("{url} names no host"));
    };
    // An IPv6 address stands in brackets in a URL and nowhere else.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    // Frames are short and somebody waits for each.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    if url.scheme() != "wss" {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| format!("no secure connection: {error}"))?))
}

async fn upgrade(
    url: &Url,
    authorization: Option<&HeaderValue>,
    wire: Box<dyn Wire>,
) -> Result<Socket, Unopened> {
    let invalid = |error: Error| Unopened::Unreachable(error.to_string());
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
    match client_async_with_config(request, wire, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => Err(refusal(&answer)),
        Err(error) => Err(Unopened::NoUpgrade(error.to_string())),
    }
}

/// What an answer means that is no upgrade.
fn refusal(answer: &http::Response<Option<Vec<u8>>>) -> Unopened {
    let said = answer.body().as_deref().unwrap_or_default();
    let message = super::answer::message(answer.status(), said);
    match super::answer::is_refusal(answer.status(), said) {
        true => Unopened::Refused(message),
        false => Unopened::NoUpgrade(message),
    }
}

struct Sending(SplitSink<Socket, Message>);

impl LinkTx for Sending {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        Box::pin(async move { self.0.send(Message::text(frame.text())).await.map_err(broken) })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // It is gone, which is all that was wanted.
            let _ = self.0.close().await;
        })
    }
}

struct Receiving(SplitStream<Socket>);

impl LinkRx for Receiving {
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
                            "the hub sent bytes where frames are text".to_owned(),
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
    super::answer::closed(code.into(), reason.as_str())
}

fn broken(error: Error) -> LinkError {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => LinkError::Closed(None),
        Error::Capacity(error) => LinkError::Invalid(error.to_string()),
        error => LinkError::Broken(error.to_string()),
    }
}
