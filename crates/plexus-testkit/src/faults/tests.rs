//! The harness itself: a checker that lets everything pass would be green for ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Attempt, Link, Schedule, Seed, Sent, Strike, Write, Writer, exactly_once};

struct Nobody;

impl Writer for Nobody {
    type Ack = ();

    async fn write(&mut self, _write: &Write) -> Option<()> {
        None
    }
}

/// What a writer sent: each marker with whether it was acknowledged.
fn sent(writes: &[(&str, bool)]) -> Sent<Nobody> {
    let attempt = |(number, (marker, acknowledged)): (usize, &(&str, bool))| Attempt {
        write: Write { number, marker: (*marker).to_owned(), key: String::new() },
        ack: acknowledged.then_some(()),
        retries: 0,
    };
    Sent { writer: Nobody, attempts: writes.iter().enumerate().map(attempt).collect() }
}

#[test]
fn what_is_lost_doubled_or_foreign_is_told_apart_from_what_may_be_missing() {
    let sent = sent(&[("a;", true), ("b;", false)]);
    let verdict = |found: &[&str]| {
        let found: Vec<String> = found.iter().map(|marker| (*marker).to_owned()).collect();
        exactly_once(&sent, &found)
    };
    assert_eq!(verdict(&["a;"]), Ok(()));
    assert_eq!(verdict(&["a;", "b;"]), Ok(()));
    assert_eq!(verdict(&["b;"]), Err("a; was acknowledged and is lost".to_owned()));
    assert_eq!(verdict(&["a;", "a;"]), Err("a; is there 2 times".to_owned()));
    assert_eq!(verdict(&["a;", "b;", "b;"]), Err("b; is there 2 times".to_owned()));
    assert_eq!(verdict(&["a;", "c;"]), Err("c; is another's".to_owned()));
}

#[test]
fn a_round_draws_the_same_whatever_came_before_it() {
    let seed = Seed::choose();
    let schedule = |round: u64| -> Schedule<u8> {
        let mut rng = seed.round(round);
        let strike = |_| Strike { after: Duration::from_micros(rng.random()), fault: rng.random() };
        (0..8).map(strike).collect()
    };
    assert_eq!(schedule(7), schedule(7));
    assert_ne!(schedule(7), schedule(8));
}

/// A server that repeats what it is told, and says what it heard.
struct Echo {
    address: SocketAddr,
    heard: mpsc::Receiver<Vec<u8>>,
    _serving: JoinSet<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, heard) = mpsc::channel(8);
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
        Self { address, heard, _serving: serving }
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
async fn a_cut_link_resets_what_is_open_and_carries_what_comes_after() {
    let (echo, other) = (Echo::start().await, Echo::start().await);
    let link = Link::to(echo.address).await;
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"one").await.unwrap(), b"one");
    link.cut();
    let mut byte = [0];
    assert_eq!(stream.read(&mut byte).await.unwrap_err().kind(), ErrorKind::ConnectionReset);

    // The same address, and something else behind it.
    drop(echo);
    link.point_at(other.address);
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn a_link_that_loses_answers_has_delivered_what_was_asked() {
    let mut echo = Echo::start().await;
    let link = Link::to(echo.address).await;
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    link.lose_answers();
    assert_eq!(ask(&mut stream, b"one").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(echo.heard.recv().await.unwrap(), b"one");
    link.heal();
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"two").await.unwrap(), b"two");
}

#[tokio::test]
async fn a_frozen_link_carries_nothing_until_it_thaws_and_then_all_of_it() {
    let mut echo = Echo::start().await;
    let link = Link::to(echo.address).await;
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, b"one").await.unwrap(), b"one");
    assert_eq!(echo.heard.recv().await.unwrap(), b"one");
    link.freeze();
    stream.write_all(b"two").await.unwrap();
    let frozen = tokio::time::timeout(Duration::from_millis(100), echo.heard.recv()).await;
    assert!(frozen.is_err(), "{frozen:?} went through");
    link.heal();
    assert_eq!(echo.heard.recv().await.unwrap(), b"two");
}
