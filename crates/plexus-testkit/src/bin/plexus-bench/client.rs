//! A handwritten HTTP/1.1 client, because the client must cost less than the measured programs.
//!
//! It reads answers with a length or in chunks, as JSON or as an event stream, because the contenders answer in all
//! of these ways. A connection has one request in flight at a time.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Far larger than any answer here; limits the memory for an endless one.
const MAX_ANSWER: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    /// Received data: the head of the answer, and the data after it.
    buffer: Vec<u8>,
    /// The body of a chunked answer, without the chunk framing.
    body: Vec<u8>,
    /// Whether the peer has announced that it will close the connection.
    closing: bool,
}

/// The relevant headers of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    events: bool,
    closing: bool,
    session: Option<String>,
}

/// An answer, read completely.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    /// Its JSON, either the body or the data of an event.
    pub(crate) payload: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(self.payload);
        text.chars().take(300).collect()
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = connect(address).await?;
        let (buffer, body) = (Vec::with_capacity(16 << 10), Vec::new());
        Ok(Self { address, stream, buffer, body, closing: false })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        let (head, start) = self.ask(request).await?;
        self.closing = head.closing;
        let body = match head.length {
            _ if head.chunked => {
                self.read_chunks(start).await?;
                self.body.as_slice()
            }
            Some(length) => {
                ensure!(length <= MAX_ANSWER, "an answer of {length} bytes");
                while self.buffer.len() < start + length {
                    self.read().await?;
                }
                &self.buffer[start..start + length]
            }
            None => {
                ensure!(matches!(head.status, 202 | 204), "an answer without a length");
                &[]
            }
        };
        let payload = if head.events { last_event(body) } else { body };
        Ok(Answer { status: head.status, session: head.session, payload })
    }

    /// Sends a request whose answer is a stream that stays open; returns the status.
    pub(crate) async fn open_stream(&mut self, request: &[u8]) -> Result<u16> {
        Ok(self.ask(request).await?.0.status)
    }

    /// Sends a request and reads the head of its answer; returns the offset of the body.
    async fn ask(&mut self, request: &[u8]) -> Result<(Head, usize)> {
        if self.closing || !self.send(request).await {
            // A server may close an idle connection; clients then reconnect.
            self.stream = connect(self.address).await?;
            self.closing = false;
            ensure!(self.send(request).await, "the connection was closed before an answer");
        }
        let mut searched = 0_usize;
        loop {
            if searched > 0 {
                self.read().await?;
            }
            let from = searched.saturating_sub(3);
            if let Some(at) = self.buffer[from..].windows(4).position(|window| window == b"\r\n\r\n") {
                let end = from + at;
                return Ok((parse_head(&self.buffer[..end])?, end + 4));
            }
            searched = self.buffer.len();
        }
    }

    /// Sends the request; returns whether an answer has begun.
    async fn send(&mut self, request: &[u8]) -> bool {
        self.buffer.clear();
        self.stream.write_all(request).await.is_ok()
            && self.stream.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0)
    }

    async fn read(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.context("cannot read the answer")?;
        ensure!(read > 0, "the connection was closed in the middle of an answer");
        ensure!(self.buffer.len() <= MAX_ANSWER, "an answer of more than {MAX_ANSWER} bytes");
        Ok(())
    }

    async fn read_chunks(&mut self, mut at: usize) -> Result<()> {
        self.body.clear();
        loop {
            let line = loop {
                match self.buffer[at..].windows(2).position(|window| window == b"\r\n") {
                    Some(line) => break at + line,
                    None => self.read().await?,
                }
            };
            let size = chunk_size(&self.buffer[at..line])?;
            let (start, end) = (line + 2, line + 2 + size);
            // The chunk and the line break after it; the last chunk has no trailers.
            while self.buffer.len() < end + 2 {
                self.read().await?;
            }
            if size == 0 {
                return Ok(());
            }
            self.body.extend_from_slice(&self.buffer[start..end]);
            at = end + 2;
        }
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true).context("TCP_NODELAY")?;
    Ok(stream)
}

fn parse_head(head: &[u8]) -> Result<Head> {
    let head = std::str::from_utf8(head).context("a head that is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let Some(status) = status else { bail!("not an HTTP answer: {head:?}") };
    let mut parsed = Head { status, ..Head::default() };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            parsed.length = Some(value.parse().with_context(|| format!("a length of {value:?}"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            parsed.chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("content-type") {
            parsed.events = value.starts_with("text/event-stream");
        } else if name.eq_ignore_ascii_case("connection") {
            parsed.closing = value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            parsed.session = Some(value.to_owned());
        }
    }
    Ok(parsed)
}

fn chunk_size(line: &[u8]) -> Result<usize> {
    let line = std::str::from_utf8(line).context("a chunk size that is not text")?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(digits, 16).with_context(|| format!("a chunk size of {digits:?}"))?;
    ensure!(size <= MAX_ANSWER, "a chunk of {size} bytes");
    Ok(size)
}

/// The data of the last event that has any: the answer comes last, after an event for resuming.
fn last_event(body: &[u8]) -> &[u8] {
    let lines = body.split(|byte| *byte == b'\n').rev();
    let mut data = lines.filter_map(|line| line.strip_prefix(b"data:")).map(<[u8]>::trim_ascii);
    data.find(|data| !data.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
