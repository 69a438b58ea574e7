//! The proxy on standard input and output, with one message per line, for the agent that started it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use plexus_kit::Stage;
use plexus_mcp::relay::rpc::{self, INVALID_REQUEST, Message, RpcError};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, Semaphore};

use super::client::{MessageMeta, ProxyClient};
use super::http_endpoint::MAX_BODY;
use super::messages::Answer;
use super::notifications::NotificationStream;
use super::{Proxy, ProxyError};

/// Maximum number of concurrent requests; at the limit, nothing more is read.
const MAX_REQUESTS: usize = 256;

/// The output, written line by line.
struct LineWriter<W>(Mutex<W>);

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    /// Returns false if the output is closed.
    async fn write(&self, json: &[u8]) -> bool {
        let mut line = BytesMut::with_capacity(json.len() + 1);
        line.extend_from_slice(json);
        // A line break in JSON is insignificant.
        for byte in line.iter_mut() {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.extend_from_slice(b"\n");
        let mut out = self.0.lock().await;
        out.write_all(&line).await.is_ok() && out.flush().await.is_ok()
    }
}

impl Proxy {
    /// Serves one agent until `input` ends or the proxy stops. Earlier requests are still answered.
    ///
    /// # Errors
    /// If `input` cannot be read.
    pub async fn serve_stdio<R, W>(&self, mut input: R, output: W) -> Result<(), ProxyError>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let client = ProxyClient::new(self.0.clone());
        let out = Arc::new(LineWriter(Mutex::new(output)));
        let slots = Arc::new(Semaphore::new(MAX_REQUESTS));
        let stop = self.0.supervisor.stopping(Stage::Intake);
        let mut listening = false;
        loop {
            let line = tokio::select! {
                line = read_line(&mut input) => line.map_err(ProxyError::Input)?,
                () = stop.cancelled() => break,
            };
            let line = match line {
                Line::End => break,
                Line::TooLong => {
                    let mut error =
                        RpcError::invalid_request(format!("a message can have at most {MAX_BODY} bytes"));
                    error.id = Some("null".to_owned());
                    debug_assert_eq!(error.code, INVALID_REQUEST);
                    out.write(error.to_json().as_bytes()).await;
                    continue;
                }
                Line::Text(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Line::Text(line) => line,
            };
            let Ok(slot) = slots.clone().acquire_owned().await else { break };
            let (request_client, request_out) = (client.clone(), out.clone());
            let opens_session = opens_session(&line);
            let answered = async move {
                let _slot = slot;
                deliver(request_client.handle(&line, &MessageMeta::default()).await, &request_out).await;
            };
            // The session must be open before the following messages are handled.
            if opens_session {
                answered.await;
            } else {
                self.0.supervisor.spawn(Stage::Work, "request of an agent", answered);
            }
            if client.has_initialized() && !listening {
                listening = true;
                let (listener, out) = (NotificationStream::of_session(client.clone(), None), out.clone());
                let stop = stop.clone();
                self.0.supervisor.spawn(Stage::Intake, "notifications for an agent", async move {
                    let delivery = deliver(Answer::Notifications(Box::new(listener)), &out);
                    tokio::select! {
                        () = delivery => {}
                        () = stop.cancelled() => {}
                    }
                });
            }
        }
        // Notifications end with the client; its requests are still answered.
        client.disconnected().cancel();
        let _ = slots.acquire_many(u32::try_from(MAX_REQUESTS).unwrap_or(u32::MAX)).await;
        client.end().await;
        Ok(())
    }
}

fn opens_session(line: &[u8]) -> bool {
    matches!(rpc::parse(line), Ok(Message::Request(request)) if request.method == "initialize")
}

async fn deliver<W: AsyncWrite + Unpin>(answer: Answer, out: &LineWriter<W>) {
    match answer {
        Answer::Nothing => {}
        Answer::One(_, json) => {
            out.write(&json).await;
        }
        Answer::Stream(mut stream) => {
            while let Some(message) = stream.next().await {
                out.write(&message.json).await;
            }
        }
        Answer::Notifications(mut listener) => {
            while let Some(message) = listener.next().await {
                if !out.write(&message.json).await {
                    return;
                }
            }
        }
    }
}

enum Line {
    Text(Bytes),
    TooLong,
    End,
}

/// The next line; one above the limit is read to its end and dropped.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Line> {
    let mut line = BytesMut::new();
    let mut too_long = false;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok(match (too_long, line.is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Text(line.freeze()),
            });
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let line_length = end.unwrap_or(available.len());
        if line.len() + line_length > MAX_BODY {
            too_long = true;
            line.clear();
        }
        if !too_long {
            line.extend_from_slice(&available[..line_length]);
        }
        input.consume(line_length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Text(line.freeze()) });
        }
    }
}
