//! Handwritten HTTP, for requests that no HTTP library would send.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that sends the bytes given by a test.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    /// Bytes after the last answer.
    unread: Vec<u8>,
}

/// An answer, as long as its head announces.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl RawAnswer {
    /// The answer that begins with these bytes, without its body, and the offset of the body. `None` if the head is
    /// incomplete.
    pub(crate) fn parse_head(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1)?.parse().expect("a status");
        Some((Self { status, head, body: String::new() }, end + 4))
    }

    /// The announced size of the body in bytes.
    pub(crate) fn length(&self) -> usize {
        self.header("content-length").map_or(0, |length| length.parse().expect("a length"))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl RawConnection {
    pub async fn open(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.expect("a connection"), unread: Vec::new() }
    }

    /// Sends raw bytes. The peer may close before it has read them all, so failures are ignored.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = tokio::time::timeout(TIMEOUT, self.stream.write_all(bytes.as_ref())).await;
        let _ = sent.expect("sent in time");
    }

    /// Closes the sending side; the peer's data can still be read.
    pub async fn finish(&mut self) {
        // The peer may have closed already.
        let _ = self.stream.shutdown().await;
    }

    /// Everything until the peer closes. A reset is accepted, because the peer may have left data unread.
    pub async fn rest(&mut self) -> Vec<u8> {
        self.rest_within(TIMEOUT).await
    }

    /// The same with another time limit.
    pub async fn rest_within(&mut self, time: Duration) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.unread);
        let read = tokio::time::timeout(time, self.stream.read_to_end(&mut bytes)).await;
        let _ = read.unwrap_or_else(|_| panic!("not closed after {:?}", String::from_utf8_lossy(&bytes)));
        bytes
    }

    /// Closes the sending side and waits until the peer has closed too, which proves that it has noticed. Discards
    /// the remaining data.
    pub async fn hang_up(mut self) {
        let closed = async {
            let _ = self.stream.shutdown().await;
            let mut rest = Vec::new();
            let _ = self.stream.read_to_end(&mut rest).await;
        };
        tokio::time::timeout(TIMEOUT, closed).await.expect("closed in time");
    }

    /// One answer: its head, and a body of `Content-Length` bytes.
    pub async fn answer(&mut self) -> RawAnswer {
        tokio::time::timeout(TIMEOUT, async {
            loop {
                if let Some((answer, length)) = whole(&self.unread) {
                    self.unread.drain(..length);
                    return answer;
                }
                let read = self.stream.read_buf(&mut self.unread).await.expect("an answer");
                assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&self.unread));
            }
        })
        .await
        .expect("an answer in time")
    }
}

/// The first answer and its size in bytes, if it is complete.
fn whole(bytes: &[u8]) -> Option<(RawAnswer, usize)> {
    let (mut answer, start) = RawAnswer::parse_head(bytes)?;
    let end = start + answer.length();
    answer.body = String::from_utf8_lossy(bytes.get(start..end)?).into_owned();
    Some((answer, end))
}
