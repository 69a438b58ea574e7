//! A way to the hub that a test can cut, and that adds a token for programs which cannot be given one.
//!
//! The bytes of a request pass as they came, odd spaces and spellings too: these are what some programs test.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A head longer than this is none.
const MAX_HEAD: usize = 64 * 1024;

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    connections: Arc<Mutex<JoinSet<()>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// In front of the server at `to`.
    pub async fn start(to: SocketAddr) -> Self {
        Self::adding(to, None).await
    }

    /// In front of the server at `to`, with a token in every request.
    pub async fn with_token(to: SocketAddr, token: &str) -> Self {
        // One request per connection, so that every head is at the beginning of one.
        Self::adding(to, Some(format!("Authorization: Bearer {token}\r\nConnection: close\r\n"))).await
    }

    async fn adding(to: SocketAddr, headers: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let headers: Option<Arc<str>> = headers.map(Arc::from);
        let connections: Arc<Mutex<JoinSet<()>>> = Arc::default();
        let mut tasks = JoinSet::new();
        let accepted = Arc::clone(&connections);
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let headers = headers.clone();
                accepted.lock().expect("no panic before").spawn(async move {
                    // Whoever is cut off will notice.
                    let _ = carry(client, to, headers.as_deref()).await;
                });
            }
        });
        Self { address, connections, _tasks: tasks }
    }

    /// By name: some programs want a server that is called `localhost`.
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    /// Ends every connection there is, whatever it carries; new ones are let through.
    pub async fn cut(&self) {
        let mut connections = std::mem::take(&mut *self.connections.lock().expect("no panic before"));
        connections.shutdown().await;
    }
}

async fn carry(mut client: TcpStream, to: SocketAddr, headers: Option<&str>) -> io::Result<()> {
    let mut server = TcpStream::connect(to).await?;
    if let Some(headers) = headers {
        let bytes = read_head(&mut client).await?;
        // After the last header, before the empty line.
        let Some(end) = end_of_head(&bytes) else { return Ok(()) };
        let (head, rest) = bytes.split_at(end);
        server.write_all(&[head, headers.as_bytes(), rest].concat()).await?;
    }
    copy_bidirectional(&mut client, &mut server).await?;
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
