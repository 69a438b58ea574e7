//! Closes connections whose client stops reading.
//!
//! HTTP has no signal for a slow reader, and a client that stops reading occupies buffers and a connection slot
//! indefinitely. Only pending writes are timed; an idle connection may stay silent forever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// How long a stopping hub waits for a client to read the remaining data.
const STOPPING: Duration = Duration::from_secs(2);

pub(crate) struct Stalling<S> {
    stream: S,
    limit: Duration,
    stop: CancellationToken,
    /// Timer of the pending write.
    patience: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Stalling<S> {
    pub(crate) fn new(stream: S, limit: Duration, stop: CancellationToken) -> Self {
        Self { stream, limit, stop, patience: None }
    }

    /// Passes the result of a write on, and runs the timer while the write is pending.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.patience = None;
            return written;
        }
        let (limit, stop) = (self.limit, &self.stop);
        let patience = self.patience.get_or_insert_with(|| {
            let stop = stop.clone();
            Box::pin(async move {
                tokio::select! {
                    () = tokio::time::sleep(limit) => {}
                    () = async { stop.cancelled().await; tokio::time::sleep(STOPPING).await } => {}
                }
            })
        });
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
