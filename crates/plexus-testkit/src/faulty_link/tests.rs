#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::FaultyLink;

/// A server that echoes what it receives, and records it.
struct Echo {
    address: SocketAddr,
    received: mpsc::Receiver<Vec<u8>>,
    _serving: JoinSet<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, received) = mpsc::channel(8);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    let _ = tell.send(buffer[..read].to_vec()).await;
                    let _ = stream.write_all(&buffer[..read]).await;
                }
            }
        });
        Self { address, received, _serving: serving }
    }
}

async fn ask(stream: &mut TcpStream, word: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(word).await?;
    let mut answer = vec![0; word.len()];
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_exact(&mut answer));
    read.await.expect("an answer or an end in time")?;
    Ok(answer)
}

#[tokio::test]
async fn cut_link_resets_open_connections_and_forwards_new_ones() {
    let (echo, other) = (Echo::start().await, Echo::start().await);
    let link = FaultyLink::to(echo.address).await;
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"one").await.unwrap(), b"one");
    link.cut();
    let mut byte = [0];
    assert_eq!(stream.read(&mut byte).await.unwrap_err().kind(), ErrorKind::ConnectionReset);

    // The same address with another target.
    drop(echo);
    link.point_at(other.address);
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn link_that_loses_answers_delivers_requests() {
    let mut echo = Echo::start().await;
    let link = FaultyLink::to(echo.address).await;
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    link.lose_answers();
    assert_eq!(ask(&mut stream, b"one").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(echo.received.recv().await.unwrap(), b"one");
    link.heal();
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn link_that_tears_answers_delivers_requests_and_partial_answers() {
    let mut echo = Echo::start().await;
    let link = FaultyLink::to(echo.address).await;
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    link.tear_answers();
    stream.write_all(b"four").await.unwrap();
    assert_eq!(echo.received.recv().await.unwrap(), b"four");
    let mut received_bytes = Vec::new();
    assert_eq!(stream.read_to_end(&mut received_bytes).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(received_bytes, b"fo");
}

#[tokio::test]
async fn frozen_link_forwards_everything_after_healing() {
    let mut echo = Echo::start().await;
    let link = FaultyLink::to(echo.address).await;
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"one").await.unwrap(), b"one");
    assert_eq!(echo.received.recv().await.unwrap(), b"one");
    link.freeze();
    stream.write_all(b"two").await.unwrap();
    let frozen = tokio::time::timeout(Duration::from_millis(100), echo.received.recv()).await;
    assert!(frozen.is_err(), "{frozen:?} went through");
    link.heal();
    assert_eq!(echo.received.recv().await.unwrap(), b"two");
}
