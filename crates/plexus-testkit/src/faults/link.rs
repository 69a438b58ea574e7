//! A wire that can be cut: a relay on loopback between those who call and what they call.
//!
//! Its own address stays the same while what is behind it comes and goes, so that a client that
//! lives through a restart need not be told where to go.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const BUFFER: usize = 16 * 1024;
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
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (state, seen) = watch::channel(State { target, mode: Mode::Open, cuts: 0 });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, seen));
        Self { address, state, _accepting: accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
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

    pub fn heal(&self) {
        self.state.send_modify(|state| state.mode = Mode::Open);
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                connections.spawn(carry(client, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection until both sides are done, or it is cut.
async fn carry(mut client: TcpStream, state: watch::Receiver<State>) {
    let State { target, cuts, .. } = *state.borrow();
    let Ok(Ok(mut server)) = tokio::time::timeout(CONNECT, TcpStream::connect(target)).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let done = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let mut cut = state.clone();
        let both = async {
            tokio::try_join!(
                pump(from_client, to_server, state.clone(), false),
                pump(from_server, to_client, state.clone(), true),
            )
        };
        tokio::select! {
            done = both => done.is_ok(),
            _ = cut.wait_for(|state| state.cuts != cuts) => false,
        }
    };
    if !done {
        // Dropped with a reset, as a broken network would.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Carries one direction to its end; an error where the connection is to be reset.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    answers: bool,
) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        let thawed = state.wait_for(|state| state.mode != Mode::Frozen).await;
        let mode = thawed.map_or(Mode::Open, |state| state.mode);
        if read == 0 {
            return to.shutdown().await;
        }
        if answers && mode == Mode::LosesAnswers {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
