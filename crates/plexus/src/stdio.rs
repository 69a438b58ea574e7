//! Asynchronous standard input and output. Pipes and sockets, which agents use, are polled directly; Tokio's own
//! stdin and stdout would go through a thread.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

pub(crate) type Input = Pin<Box<dyn AsyncRead + Send>>;
pub(crate) type Output = Pin<Box<dyn AsyncWrite + Send>>;

pub(crate) fn input() -> io::Result<Input> {
    let (kind, fd) = duplicate(io::stdin())?;
    Ok(match kind {
        FileType::Fifo => Box::pin(pipe::Receiver::from_owned_fd(fd)?),
        FileType::Socket => Box::pin(socket(fd)?),
        _ => Box::pin(tokio::io::stdin()),
    })
}

pub(crate) fn output() -> io::Result<Output> {
    let (kind, fd) = duplicate(io::stdout())?;
    Ok(match kind {
        FileType::Fifo => Box::pin(pipe::Sender::from_owned_fd(fd)?),
        FileType::Socket => Box::pin(socket(fd)?),
        _ => Box::pin(tokio::io::stdout()),
    })
}

fn duplicate(stream: impl AsFd) -> io::Result<(FileType, OwnedFd)> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&stream)?.st_mode);
    Ok((kind, stream.as_fd().try_clone_to_owned()?))
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
