//! A server that runs as a process of the hub, over its standard input and output: one message per line.

use bytes::{Bytes, BytesMut};
use plexus_proto::api::UpstreamEra;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::sync::DropGuard;

use super::connection::{Connection, Opening};
use super::message::RequestId;
use super::pipe::{Pipe, Receive, Transmit, TransmitError};
use super::process::{self, Process, SpawnedProcess};
use super::{ClientError, Connect};
use crate::config::StdioConfig;

/// Bytes read at once; small messages share a block of this size.
const BLOCK_SIZE: usize = 16 << 10;
/// Minimum free space for a read.
const MIN_ROOM: usize = 2 << 10;

/// Connects to a process. A process of the other era may exit instead of returning an error, so a process
/// that fails the handshake is replaced once by another with the other handshake.
pub(super) async fn connect(connect: &Connect, command: &StdioConfig) -> Result<Connection, ClientError> {
    let known_session = connect.known_era == Some(UpstreamEra::Session);
    let (first, second) = if known_session {
        (Opening::Initialize, Opening::Discover)
    } else {
        (Opening::Discover, Opening::Initialize)
    };
    let failed = match attempt(connect, command, first).await {
        Ok(connection) => return Ok(connection),
        Err(failed) => failed,
    };
    let second_helps = match &failed {
        ClientError::Lost(_) => true,
        // Only a server that was assumed to be of the session era should be probed for its era.
        ClientError::Rpc { .. } | ClientError::Protocol(_) => known_session,
        ClientError::Unreachable(_)
        | ClientError::Busy(_)
        | ClientError::NeedsLogin(_)
        | ClientError::Cancelled => false,
    };
    if !second_helps {
        return Err(failed);
    }
    tracing::debug!(server = %connect.config.name, %failed, ?second, "trying another process");
    attempt(connect, command, second).await
}

async fn attempt(
    connect: &Connect,
    command: &StdioConfig,
    opening: Opening,
) -> Result<Connection, ClientError> {
    let SpawnedProcess { process, stdin, stdout } = process::spawn(command, connect)?;
    let lines = LineReader::new(stdout, connect.settings.max_message);
    let output = ProcessOutput { lines, process: process.clone(), _read: process.read_when_dropped() };
    let input = ProcessInput { stdin, process: process.clone(), _stop: process.stop_when_dropped() };
    let name = &connect.config.name;
    let (listener, chatter) = (connect.listener.clone(), connect.chatter.clone());
    let pipe = Pipe::open(name, output, input, listener, chatter, &connect.supervisor);
    let opened = Connection::open(pipe, opening, Some(process.clone()), connect).await;
    if opened.is_err() {
        // The pipe is gone and stops the process. Wait for it, because two processes at once might interfere.
        process.ended().await;
    }
    opened
}

/// The standard output of a server, which the hub reads.
struct ProcessOutput {
    lines: LineReader<ChildStdout>,
    process: Process,
    _read: DropGuard,
}

impl Receive for ProcessOutput {
    async fn receive(&mut self) -> Result<Bytes, String> {
        let line = tokio::select! {
            biased;
            line = self.lines.next() => line,
            // Another process holds the other end; its output is irrelevant.
            () = self.process.silent() => Ok(None),
        };
        match line {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(self.process.explain("the server closed its standard output").await),
            Err(why) => Err(why),
        }
    }
}

/// The standard input of a server, which the hub writes. Closing it asks the server to exit.
struct ProcessInput {
    stdin: ChildStdin,
    process: Process,
    /// Declared after `stdin`, so that it is dropped after it.
    _stop: DropGuard,
}

impl Transmit for ProcessInput {
    async fn transmit(&mut self, _: Option<RequestId>, mut message: Vec<u8>) -> Result<(), TransmitError> {
        message.push(b'\n');
        if self.stdin.write_all(&message).await.is_ok() {
            return Ok(());
        }
        Err(TransmitError::Connection(self.process.explain("the server closed its standard input").await))
    }
}

/// Reads lines of bounded length. A line is a slice of the block it was read into, not a copy.
struct LineReader<R> {
    reader: R,
    block: BytesMut,
    /// Bytes of the block without a line break.
    scanned: usize,
    limit: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    fn new(reader: R, limit: usize) -> Self {
        Self { reader, block: BytesMut::new(), scanned: 0, limit }
    }

    /// The next line; none at the end. Cancel-safe.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let line_break = self.block[self.scanned..].iter().position(|byte| *byte == b'\n');
            let length = line_break.map_or(self.block.len(), |at| self.scanned + at);
            if length > self.limit {
                let limit = self.limit;
                return Err(format!(
                    "the server sent a message of more than {limit} bytes, which exceeds the limit"
                ));
            }
            if line_break.is_some() {
                let mut line = self.block.split_to(length + 1).freeze();
                line.truncate(length);
                self.scanned = 0;
                return Ok(Some(line));
            }
            self.scanned = length;
            if self.block.capacity() - length < MIN_ROOM {
                self.block.reserve(BLOCK_SIZE.max(length));
            }
            match self.reader.read_buf(&mut self.block).await {
                Ok(0) if self.block.is_empty() => return Ok(None),
                // The last line has no line break.
                Ok(0) => {
                    self.scanned = 0;
                    return Ok(Some(self.block.split().freeze()));
                }
                Ok(_) => {}
                Err(error) => return Err(format!("cannot read the server's standard output: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
