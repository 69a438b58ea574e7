//! Jobs with a terminal. The node owns the terminal, so its processes receive a hangup when the node ends.

use std::io;

use pty_process::{Pty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};

use super::keeper::JobCommand;
use super::spool::Spool;

const BLOCK: usize = 16 << 10;
/// The end-of-input character of a terminal (Ctrl-D).
pub(super) const END_OF_INPUT: u8 = 4;
/// The queue length of texts to type. Senders wait if it is full.
const TYPED: usize = 4;

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// An input event of a terminal.
#[derive(Debug)]
pub(super) enum Typed {
    Text {
        bytes: Vec<u8>,
        done: oneshot::Sender<()>,
    },
    /// A new window size.
    Size(Screen),
}

/// Types into a terminal.
#[derive(Debug, Clone)]
pub(super) struct Keyboard(mpsc::Sender<Typed>);

impl Keyboard {
    pub(super) fn new() -> (Self, mpsc::Receiver<Typed>) {
        let (sender, receiver) = mpsc::channel(TYPED);
        (Self(sender), receiver)
    }

    /// Types a text before anything else, followed by the end of input. The queue is empty, so it has room.
    pub(super) fn begin_with(&self, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(END_OF_INPUT);
        let _ = self.0.try_send(Typed::Text { bytes, done: oneshot::channel().0 });
    }

    /// Returns once the terminal has accepted all of it; false if the terminal is closed.
    pub(super) async fn press(&self, bytes: Vec<u8>) -> bool {
        let (done, typed) = oneshot::channel();
        self.0.send(Typed::Text { bytes, done }).await.is_ok() && typed.await.is_ok()
    }

    /// Returns once the text is queued. The returned receiver completes when the text was typed; `None` if the
    /// terminal is closed.
    pub(super) async fn queue(&self, bytes: Vec<u8>) -> Option<oneshot::Receiver<()>> {
        let (done, typed) = oneshot::channel();
        self.0.send(Typed::Text { bytes, done }).await.ok().map(|()| typed)
    }

    pub(super) async fn resize(&self, screen: Screen) -> bool {
        self.0.send(Typed::Size(screen)).await.is_ok()
    }
}

/// Starts a command as the leader of its own session.
pub(super) fn start(begun: &JobCommand<'_>, screen: Screen) -> io::Result<(Child, Pty)> {
    let (program, arguments) = begun.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (pty, inside) = pty_process::open().map_err(cause)?;
    pty.resize(Size::new(screen.rows, screen.cols)).map_err(cause)?;
    let child = pty_process::Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(begun.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(begun.cwd)
        .spawn(inside)
        .map_err(cause)?;
    Ok((child, pty))
}

fn cause(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        other => io::Error::other(other),
    }
}

/// Copies terminal output to the spool and input to the terminal, until no process has the terminal open.
pub(super) async fn pump(pty: Pty, spool: Spool, mut keys: mpsc::Receiver<Typed>) {
    let (mut from, mut to) = pty.into_split();
    let show = async {
        let mut file = tokio::fs::OpenOptions::new().append(true).open(spool.path()).await?;
        let mut block = vec![0; BLOCK];
        // A terminal that no process has open returns an error instead of the end of file.
        while let Ok(read @ 1..) = from.read(&mut block).await {
            file.write_all(&block[..read]).await?;
            file.flush().await?;
        }
        Ok::<(), io::Error>(())
    };
    let listen = async {
        while let Some(typed) = keys.recv().await {
            match typed {
                Typed::Text { bytes, done } => {
                    if to.write_all(&bytes).await.is_ok() {
                        let _ = done.send(());
                    }
                }
                // The system notifies the processes in the terminal.
                Typed::Size(screen) => {
                    let _ = to.resize(Size::new(screen.rows, screen.cols));
                }
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        shown = show => if let Err(error) = shown {
            tracing::warn!(%error, "the output of a terminal cannot be stored");
        },
        () = listen => {}
    }
}
