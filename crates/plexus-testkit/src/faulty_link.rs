//! A network link that can be cut: a loopback relay between clients and their target.
//!
//! Its address stays the same while its target changes, so that clients need no reconfiguration after a restart.
//! Bytes pass unchanged, including unusual spaces and spellings; optionally a token is added for programs that
//! cannot send one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const BUFFER: usize = 16 * 1024;
/// Maximum size of a request head.
const MAX_HEAD: usize = 64 * 1024;
/// Time limit for connecting to the target.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How the link treats data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    /// Forwards nothing and closes nothing, as if a cable were pulled.
    Frozen,
    /// Forwards requests; a connection is reset at the first byte of an answer.
    LosesAnswers,
    /// The same, but a connection is reset in the middle of an answer.
    TearsAnswers,
}

#[derive(Debug, Clone, Copy)]
struct State {
    target: SocketAddr,
    mode: Mode,
    /// Number of times that all connections were cut.
    cuts: u64,
}

/// A relay that stops when it is dropped.
#[derive(Debug)]
pub struct FaultyLink {
    address: SocketAddr,
    state: watch::Sender<State>,
    _accepting: JoinSet<()>,
}

impl FaultyLink {
    pub async fn to(target: SocketAddr) -> Self {
        Self::with_header(target, None).await
    }

    /// A link that adds a token to every request.
    pub async fn with_token(target: SocketAddr, token: &str) -> Self {
        // Use one request per connection, so that every head is at the start of one.
        Self::with_header(target, Some(format!("Authorization: Bearer {token}\r\nConnection: close\r\n")))
            .await
    }

    async fn with_header(target: SocketAddr, headers: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (state, state_watch) = watch::channel(State { target, mode: Mode::Open, cuts: 0 });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, state_watch, headers.map(Arc::from)));
        Self { address, state, _accepting: accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// With a host name, because some programs require a server on `localhost`.
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    /// Sets the target of new connections.
    pub fn point_at(&self, target: SocketAddr) {
        self.state.send_modify(|state| state.target = target);
    }

    /// Resets all open connections; new ones are forwarded.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Forwards nothing until [`Link::heal`], without closing connections.
    pub fn freeze(&self) {
        self.state.send_modify(|state| state.mode = Mode::Frozen);
    }

    /// Forwards requests and drops the answers until [`Link::heal`].
    pub fn lose_answers(&self) {
        self.state.send_modify(|state| state.mode = Mode::LosesAnswers);
    }

    /// Forwards requests and about half of each answer until [`Link::heal`].
    pub fn tear_answers(&self) {
        self.state.send_modify(|state| state.mode = Mode::TearsAnswers);
    }

    pub fn heal(&self) {
        self.state.send_modify(|state| state.mode = Mode::Open);
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>, headers: Option<Arc<str>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                connections.spawn(relay(client, state.clone(), headers.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards one connection until both sides are done or the link is cut.
async fn relay(mut client: TcpStream, state: watch::Receiver<State>, headers: Option<Arc<str>>) {
    let State { target, cuts, .. } = *state.borrow();
    let Ok(Ok(mut server)) = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(target)).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let mut cut = state.clone();
    let done = tokio::select! {
        done = exchange(&mut client, &mut server, state, headers.as_deref()) => done.is_ok(),
        _ = cut.wait_for(|state| state.cuts != cuts) => false,
    };
    if !done {
        // Close with a reset, like a broken network.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Forwards both directions to their end; an error means that the connection must be reset.
async fn exchange(
    client: &mut TcpStream,
    server: &mut TcpStream,
    state: watch::Receiver<State>,
    headers: Option<&str>,
) -> io::Result<()> {
    if let Some(headers) = headers {
        let bytes = read_head(client).await?;
        // After the last header, before the empty line.
        let end = end_of_head(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        let (head, rest) = bytes.split_at(end);
        server.write_all(&[head, headers.as_bytes(), rest].concat()).await?;
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        forward(from_client, to_server, state.clone(), false),
        forward(from_server, to_client, state, true),
    )?;
    Ok(())
}

/// Reads a head and any data that follows it; shorter if the connection ends.
async fn read_head(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while end_of_head(&bytes).is_none() && bytes.len() < MAX_HEAD {
        if client.read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    Ok(bytes)
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    Some(bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 2)
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    answers: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        let healed = state.wait_for(|state| state.mode != Mode::Frozen).await;
        let mode = healed.map_or(Mode::Open, |state| state.mode);
        if read == 0 {
            return to.shutdown().await;
        }
        let carried = match mode {
            Mode::LosesAnswers if answers => 0,
            Mode::TearsAnswers if answers => read / 2,
            _ => read,
        };
        to.write_all(&buffer[..carried]).await?;
        if carried < read {
            // Forwarded data must arrive before the reset.
            to.flush().await?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
    }
}

#[cfg(test)]
mod tests;
