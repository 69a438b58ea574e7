//! An event stream over a WebSocket. The hub sends events; the client sends only signs of life.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::ws::{self, CloseFrame, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use futures_util::SinkExt;
use plexus_auth::StreamPermit;
use plexus_kit::Stage;
use plexus_proto::StreamResume;
use plexus_proto::close_code::{TOO_SLOW, UNAUTHENTICATED};
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use super::reader::Message;
use super::{EventStream, Events, ticks};

/// The subprotocol, for clients that must name one.
const PROTOCOL: &str = "plexus.v1";
/// Maximum size of a client's message; clients have nothing to send.
const CLIENT_BYTES: usize = 4 << 10;
/// Maximum number of client frames between two keep-alives.
const CLIENT_FRAMES: usize = 256;
/// Size of the buffer in front of the socket.
const WRITE_BUFFER: usize = 32 << 10;
/// Amount of data that a reader must accept within [`slow`](super::EventOptions::slow).
const SLOW_BYTES: usize = 64 << 10;
/// A client that accepts this much is alive; its pong may be queued behind the data.
const ALIVE_BYTES: usize = 16 << 10;
/// How long a stopping hub waits for a client to receive its close message.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Events {
    /// Upgrades to a WebSocket that carries the stream. `guard` is dropped with the socket.
    pub(crate) fn upgrade(
        &self,
        upgrade: WebSocketUpgrade,
        stream: EventStream,
        guard: impl Send + 'static,
    ) -> Response {
        let supervisor = self.supervisor.clone();
        upgrade
            .protocols([PROTOCOL])
            .read_buffer_size(CLIENT_BYTES)
            .max_message_size(CLIENT_BYTES)
            .max_frame_size(CLIENT_BYTES)
            .write_buffer_size(WRITE_BUFFER)
            .on_upgrade(|socket| async move {
                supervisor.spawn(Stage::Intake, "event stream", async move {
                    Connection::new(socket, stream).run().await;
                    drop(guard);
                });
            })
    }
}

struct Connection {
    socket: WebSocket,
    stream: EventStream,
    /// Number of the last message that was passed to the socket.
    sent: i64,
    ticks: Interval,
    /// When the last client frame arrived, and the number of client frames since the last keep-alive.
    last_frame_at: Instant,
    frames: usize,
}

/// Why a stream ends.
enum StreamEnd {
    /// The client disconnected or cannot be reached.
    Disconnected,
    /// The client gets a close message with this code.
    Close(u16),
}

impl Connection {
    fn new(socket: WebSocket, stream: EventStream) -> Self {
        let ticks = ticks(stream.options.keep_alive);
        Self { sent: stream.reader.after(), socket, stream, ticks, last_frame_at: Instant::now(), frames: 0 }
    }

    async fn run(mut self) {
        let end = loop {
            if let Break(end) = self.step().await {
                break end;
            }
        };
        let grace = match end {
            StreamEnd::Close(TOO_SLOW) => self.stream.options.grace,
            _ => CLOSE_TIMEOUT.min(self.stream.options.grace),
        };
        if tokio::time::timeout(grace, self.close_with_reason(end)).await.is_err() {
            tracing::debug!("the client of an event stream did not close it in time");
        }
    }

    /// Waits for the next event of the connection and handles it.
    async fn step(&mut self) -> ControlFlow<StreamEnd> {
        let EventStream { reader, permit, stopping, options, .. } = &mut self.stream;
        tokio::select! {
            end = wait_for_end(stopping, permit) => Break(end),
            frame = self.socket.recv() => self.on_frame(frame),
            messages = reader.next() => self.send(messages).await,
            _ = self.ticks.tick() => {
                if self.last_frame_at.elapsed() > options.silence {
                    return Break(StreamEnd::Disconnected);
                }
                self.frames = 0;
                let ping = ws::Message::Ping(Bytes::new());
                self.write(vec![(self.sent, ping)]).await
            }
        }
    }

    /// Any client frame counts as a sign of life; its content is ignored.
    fn on_frame(&mut self, frame: Option<Result<ws::Message, axum::Error>>) -> ControlFlow<StreamEnd> {
        match frame {
            None | Some(Ok(ws::Message::Close(_))) => return Break(StreamEnd::Disconnected),
            // The connection is broken or the message too large; a client that is still there gets a close message.
            Some(Err(_)) => return Break(StreamEnd::Close(close_code::POLICY)),
            Some(Ok(_)) => {}
        }
        self.last_frame_at = Instant::now();
        self.frames += 1;
        if self.frames > CLIENT_FRAMES { Break(StreamEnd::Close(close_code::POLICY)) } else { Continue(()) }
    }

    async fn send(&mut self, messages: Vec<Message>) -> ControlFlow<StreamEnd> {
        let frames = messages.into_iter().map(|message| {
            let text = match &message {
                Message::Event { item, .. } => item.json.clone(),
                Message::Control(control) => serde_json::to_string(control).unwrap_or_default().into(),
            };
            (message.number(), ws::Message::Text(text))
        });
        self.write(frames.collect()).await
    }

    /// Writes frames, each with its number. A client that does not accept them in time is too slow.
    async fn write(&mut self, frames: Vec<(i64, ws::Message)>) -> ControlFlow<StreamEnd> {
        let bytes: usize = frames.iter().map(|(_, frame)| size(frame)).sum();
        let portions = u32::try_from(1 + bytes / SLOW_BYTES).unwrap_or(u32::MAX);
        let EventStream { permit, stopping, options, too_slow, .. } = &mut self.stream;
        let written = async {
            for (number, frame) in frames {
                self.socket.feed(frame).await?;
                self.sent = number;
            }
            self.socket.flush().await
        };
        tokio::select! {
            // Write as much as possible first, even if there is a reason to end.
            biased;
            written = written => {
                if bytes >= ALIVE_BYTES {
                    self.last_frame_at = Instant::now();
                }
                if written.is_ok() { Continue(()) } else { Break(StreamEnd::Disconnected) }
            }
            end = wait_for_end(stopping, permit) => Break(end),
            () = tokio::time::sleep(options.slow.saturating_mul(portions)) => {
                too_slow.fetch_add(1, Ordering::Relaxed);
                Break(StreamEnd::Close(TOO_SLOW))
            }
        }
    }

    /// Sends the close message and waits until the client has closed too: otherwise data that it has not read yet
    /// would be lost.
    async fn close_with_reason(&mut self, end: StreamEnd) {
        if let StreamEnd::Close(code) = end {
            let resume = StreamResume { resume_after: self.sent };
            let reason: Utf8Bytes = serde_json::to_string(&resume).unwrap_or_default().into();
            let close = ws::Message::Close(Some(CloseFrame { code, reason }));
            if self.socket.send(close).await.is_err() {
                return;
            }
        }
        while let Some(Ok(_)) = self.socket.recv().await {}
    }
}

/// Completes when the stream must end: the hub is stopping or the token is no longer valid.
async fn wait_for_end(stopping: &CancellationToken, permit: &mut StreamPermit) -> StreamEnd {
    tokio::select! {
        () = stopping.cancelled() => StreamEnd::Close(close_code::AWAY),
        () = permit.wait_until_invalid() => StreamEnd::Close(UNAUTHENTICATED),
    }
}

fn size(frame: &ws::Message) -> usize {
    match frame {
        ws::Message::Text(text) => text.len(),
        _ => 0,
    }
}
