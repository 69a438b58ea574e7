//! The proxy on standard input and output: one message a line, for the agent that started it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use plexus_kit::Stage;
use plexus_mcp::relay::rpc::{self, INVALID_REQUEST, Message, RpcError};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, Semaphore};

use super::agent::{Agent, Given};
use super::answer::Answer;
use super::http::MAX_BODY;
use super::listen::Listener;
use super::{Proxy, ProxyError};

/// Requests that are answered at the same time; nothing more is read until one has ended.
const AT_ONCE: usize = 256;

/// Where lines go, one at a time and whole.
struct Out<W>(Mutex<W>);

impl<W: AsyncWrite + Unpin> Out<W> {
    /// False: nobody reads any more.
    async fn write(&self, json: &[u8]) -> bool {
        let mut line = BytesMut::with_capacity(json.len() + 1);
        line.extend_from_slice(json);
        // A line break in JSON is white space.
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
    /// Serves one agent until it closes `input`, or the proxy is told to stop. What was asked before that is still answered.
    ///
    /// # Errors
    /// When `input` cannot be read.
    pub async fn serve_stdio<R, W>(&self, mut input: R, output: W) -> Result<(), ProxyError>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let agent = Agent::new(self.0.clone());
        let out = Arc::new(Out(Mutex::new(output)));
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let stop = self.0.supervisor.stopping(Stage::Intake);
        let mut listening = false;
        loop {
            let line = tokio::select! {
                line = read(&mut input) => line.map_err(ProxyError::Input)?,
                () = stop.cancelled() => break,
            };
            let line = match line {
                Line::End => break,
                Line::TooLong => {
                    let mut error =
                        RpcError::invalid_request(format!("a message has at most {MAX_BODY} bytes"));
                    error.id = Some("null".to_owned());
                    debug_assert_eq!(error.code, INVALID_REQUEST);
                    out.write(error.to_json().as_bytes()).await;
                    continue;
                }
                Line::Text(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Line::Text(line) => line,
            };
            let Ok(place) = places.clone().acquire_owned().await else { break };
            let (agent_of, out_of) = (agent.clone(), out.clone());
            let begins = begins_session(&line);
            let answered = async move {
                let _place = place;
                deliver(agent_of.take(&line, &Given::default()).await, &out_of).await;
            };
            // What begins a session comes before all that follows.
            if begins {
                answered.await;
            } else {
                self.0.supervisor.spawn(Stage::Work, "request of an agent", answered);
            }
            if agent.has_begun() && !listening {
                listening = true;
                let (listener, out) = (Listener::of_session(agent.clone(), None), out.clone());
                let stop = stop.clone();
                self.0.supervisor.spawn(Stage::Intake, "news for an agent", async move {
                    let told = deliver(Answer::News(Box::new(listener)), &out);
                    tokio::select! {
                        () = told => {}
                        () = stop.cancelled() => {}
                    }
                });
            }
        }
        // News end with the client; what it has asked for is still answered.
        agent.gone().cancel();
        let _ = places.acquire_many(u32::try_from(AT_ONCE).unwrap_or(u32::MAX)).await;
        agent.end().await;
        Ok(())
    }
}

fn begins_session(line: &[u8]) -> bool {
    matches!(rpc::parse(line), Ok(Message::Request(request)) if request.method == "initialize")
}

async fn deliver<W: AsyncWrite + Unpin>(answer: Answer, out: &Out<W>) {
    match answer {
        Answer::Nothing => {}
        Answer::One(_, json) => {
            out.write(&json).await;
        }
        Answer::Stream(mut stream) => {
            while let Some(told) = stream.next().await {
                out.write(&told.json).await;
            }
        }
        Answer::News(mut listener) => {
            while let Some(told) = listener.next().await {
                if !out.write(&told.json).await {
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

/// The next line, up to the limit; what is longer is read to its end and dropped.
async fn read(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Line> {
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
        let taken = end.unwrap_or(available.len());
        if line.len() + taken > MAX_BODY {
            too_long = true;
            line.clear();
        }
        if !too_long {
            line.extend_from_slice(&available[..taken]);
        }
        input.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Text(line.freeze()) });
        }
    }
}
