//! A connection that takes nothing of what is written to it is broken off.
//!
//! HTTP has no word for "too slow", and a client that stops reading keeps buffers and a place among
//! the connections for as long as it likes. Only a write that waits is timed; a connection without
//! anything to say may be silent for ever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// How long a hub that stops waits for a client to take what is left.
const STOPPING: Duration = Duration::from_secs(2);

pub(crate) struct Stalling<S> {
    stream: S,
    limit: Duration,
    stop: CancellationToken,
    /// Ends when the write that waits has waited for too long.
    patience: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Stalling<S> {
    pub(crate) fn new(stream: S, limit: Duration, stop: CancellationToken) -> Self {
        Self { stream, limit, stop, patience: None }
    }

    /// What a write came to; while it waits, time runs.
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
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
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
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_util::sync::CancellationToken;

    use super::Stalling;

    #[tokio::test]
    async fn a_write_that_waits_too_long_fails_and_one_that_moves_does_not() {
        let (ours, mut theirs) = duplex(4);
        let mut stalling = Stalling::new(ours, Duration::from_millis(50), CancellationToken::new());
        // Slow all in all, and never without progress for long.
        let taken = async {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                theirs.read_exact(&mut [0; 4]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stalling.write_all(&[0; 80]), taken);
        written.unwrap();
        let error = stalling.write_all(&[0; 80]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}
