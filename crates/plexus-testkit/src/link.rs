//! A wire that can be cut: a relay on loopback between those who call and what they call.
//!
//! Its own address stays the same while what is behind it comes and goes, so that a client that
//! lives through a restart need not be told where to go. Bytes pass as they came, odd spaces and
//! spellings too; on request a token is added for programs that cannot be given one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const BUFFER: usize = 16 * 1024;
/// A head longer than this is none.
const MAX_HEAD: usize = 64 * 1024;
/// For whatever is behind the link to take a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// What the wire does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    /// Carries nothing and closes nothing, as when a cable is pulled.
    Frozen,
    /// Delivers requests; a connection ends with the first byte of an answer.
    LosesAnswers,
    /// The same, but a connection ends amid the answer.
    TearsAnswers,
}

#[derive(Debug, Clone, Copy)]
struct State {
    target: SocketAddr,
    mode: Mode,
    /// How often all connections were cut.
    cuts: u64,
}

/// A relay; it ends with its value.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    state: watch::Sender<State>,
    _accepting: JoinSet<()>,
}

impl Link {
    pub async fn to(target: SocketAddr) -> Self {
        Self::adding(target, None).await
    }

    /// A link that puts a token into every request.
    pub async fn with_token(target: SocketAddr, token: &str) -> Self {
        // One request per connection, so that every head is at the beginning of one.
        Self::adding(target, Some(format!("Authorization: Bearer {token}\r\nConnection: close\r\n"))).await
    }

    async fn adding(target: SocketAddr, headers: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (state, seen) = watch::channel(State { target, mode: Mode::Open, cuts: 0 });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, seen, headers.map(Arc::from)));
        Self { address, state, _accepting: accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// By name: some programs want a server that is called `localhost`.
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    /// New connections go there from now on.
    pub fn point_at(&self, target: SocketAddr) {
        self.state.send_modify(|state| state.target = target);
    }

    /// Resets every connection there is; new ones are carried.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Carries nothing until [`Link::heal`], and lets nobody know.
    pub fn freeze(&self) {
        self.state.send_modify(|state| state.mode = Mode::Frozen);
    }

    /// Delivers requests and loses the answers, until [`Link::heal`].
    pub fn lose_answers(&self) {
        self.state.send_modify(|state| state.mode = Mode::LosesAnswers);
    }

    /// Delivers requests and about half of what is answered, until [`Link::heal`].
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
                connections.spawn(carry(client, state.clone(), headers.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection until both sides are done, or it is cut.
async fn carry(mut client: TcpStream, state: watch::Receiver<State>, headers: Option<Arc<str>>) {
    let State { target, cuts, .. } = *state.borrow();
    let Ok(Ok(mut server)) = tokio::time::timeout(CONNECT, TcpStream::connect(target)).await else {
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
        // Dropped with a reset, as a broken network would.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Carries both directions to their end; an error where the connection is to be reset.
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
        pump(from_client, to_server, state.clone(), false),
        pump(from_server, to_client, state, true),
    )?;
    Ok(())
}

/// A head and what came with it; less if there is no more.
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

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    answers: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        let thawed = state.wait_for(|state| state.mode != Mode::Frozen).await;
        let mode = thawed.map_or(Mode::Open, |state| state.mode);
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
            // What was carried comes through before the reset does.
            to.flush().await?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
    }
}

#[cfg(test)]
mod tests;
