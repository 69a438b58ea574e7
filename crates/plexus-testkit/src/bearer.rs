//! A way to the hub for programs that cannot be given a token: it adds one, and changes nothing else.
//!
//! The bytes of a request pass as they came, odd spaces and spellings too, because these are what such
//! programs test.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A head longer than this is none.
const MAX_HEAD: usize = 64 * 1024;

/// Listens until it is dropped.
#[derive(Debug)]
pub struct BearerProxy {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl BearerProxy {
    /// In front of the server at `to`.
    pub async fn start(to: SocketAddr, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        // One request per connection, so that every head is at the beginning of one.
        let added: Arc<str> = format!("Authorization: Bearer {token}\r\nConnection: close\r\n").into();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let added = Arc::clone(&added);
                connections.spawn(async move {
                    // Whoever was cut off has noticed.
                    let _ = carry(client, to, &added).await;
                });
            }
        });
        Self { address, _tasks: tasks }
    }

    /// By name: some checks want a server that is called `localhost`.
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }
}

async fn carry(mut client: TcpStream, to: SocketAddr, added: &str) -> io::Result<()> {
    let mut bytes = Vec::new();
    let end_of_head = loop {
        // After the last header, before the empty line.
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 2;
        }
        if bytes.len() > MAX_HEAD || client.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let mut server = TcpStream::connect(to).await?;
    let (head, rest) = bytes.split_at(end_of_head);
    server.write_all(&[head, added.as_bytes(), rest].concat()).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
