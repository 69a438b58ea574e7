//! HTTP by hand, for requests that no HTTP library would send.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that carries the bytes a test writes.
#[derive(Debug)]
pub struct RawConnection(TcpStream);

/// What came back, as far as the head says it goes.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl RawAnswer {
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
        Self(TcpStream::connect(address).await.expect("a connection"))
    }

    /// Bytes as they are. The other side may close before it has read them all, so a failure is no news.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = tokio::time::timeout(TIMEOUT, self.0.write_all(bytes.as_ref())).await;
        let _ = sent.expect("sent in time");
    }

    /// Says that nothing more will come, and waits until the other side has closed in turn: then it
    /// knows. What it still had to say is dropped.
    pub async fn hang_up(mut self) {
        let gone = async {
            let _ = self.0.shutdown().await;
            let mut rest = Vec::new();
            let _ = self.0.read_to_end(&mut rest).await;
        };
        tokio::time::timeout(TIMEOUT, gone).await.expect("closed in time");
    }

    /// One answer: its head, and as much body as `Content-Length` promises.
    pub async fn answer(&mut self) -> RawAnswer {
        tokio::time::timeout(TIMEOUT, async {
            let mut bytes = Vec::new();
            loop {
                if let Some(answer) = whole(&bytes) {
                    return answer;
                }
                let read = self.0.read_buf(&mut bytes).await.expect("an answer");
                assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
            }
        })
        .await
        .expect("an answer in time")
    }
}

fn whole(bytes: &[u8]) -> Option<RawAnswer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().expect("a status");
    let mut answer = RawAnswer { status, head: head.to_owned(), body: String::new() };
    let length: usize = answer.header("content-length").map_or(0, |length| length.parse().expect("a number"));
    let body = body.as_bytes().get(..length)?;
    answer.body = String::from_utf8_lossy(body).into_owned();
    Some(answer)
}
