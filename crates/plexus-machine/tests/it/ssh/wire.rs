//! A connection between ssh and its host that breaks after a number of bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(super) struct Wire {
    pub(super) port: u16,
    state: Arc<State>,
    _accepting: JoinSet<()>,
}

struct State {
    /// The number of bytes that may still pass.
    left: AtomicI64,
    /// Whether new connections work after a break.
    heals: AtomicBool,
    /// The number of breaks.
    breaks: watch::Sender<u64>,
}

impl Wire {
    pub(super) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            left: AtomicI64::new(i64::MAX),
            heals: AtomicBool::new(true),
            breaks: watch::Sender::new(0),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, target, state.clone()));
        Self { port, state, _accepting: accepting }
    }

    /// Breaks after this many more bytes, and accepts new connections if it `heals`.
    pub(super) fn break_after(&self, bytes: i64, heals: bool) {
        self.state.heals.store(heals, Ordering::SeqCst);
        self.state.left.store(bytes, Ordering::SeqCst);
    }

    pub(super) fn cut(&self) {
        self.state.break_now();
    }

    pub(super) fn mend(&self) {
        self.state.heals.store(true, Ordering::SeqCst);
        self.state.left.store(i64::MAX, Ordering::SeqCst);
    }

    pub(super) fn breaks(&self) -> u64 {
        *self.state.breaks.borrow()
    }
}

impl State {
    fn break_now(&self) {
        self.left.store(if self.heals.load(Ordering::SeqCst) { i64::MAX } else { 0 }, Ordering::SeqCst);
        self.breaks.send_modify(|breaks| *breaks += 1);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if state.left.load(Ordering::SeqCst) > 0 {
                    connections.spawn(carry(client, target, state.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn carry(mut client: TcpStream, target: SocketAddr, state: Arc<State>) {
    let mut breaks = state.breaks.subscribe();
    let now = *breaks.borrow_and_update();
    let mut server = TcpStream::connect(target).await.unwrap();
    {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        tokio::select! {
            () = pump(&mut from_client, &mut to_server, &state) => {}
            () = pump(&mut from_server, &mut to_client, &state) => {}
            _ = breaks.wait_for(|breaks| *breaks != now) => {}
        }
    }
    let _ = (client.set_zero_linger(), server.set_zero_linger());
}

async fn pump(
    from: &mut tokio::net::tcp::ReadHalf<'_>,
    to: &mut tokio::net::tcp::WriteHalf<'_>,
    state: &State,
) {
    let mut block = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut block).await {
        let size = i64::try_from(read).unwrap();
        if state.left.load(Ordering::SeqCst) != i64::MAX
            && state.left.fetch_sub(size, Ordering::SeqCst) <= size
        {
            return state.break_now();
        }
        if to.write_all(&block[..read]).await.is_err() {
            return;
        }
    }
}
