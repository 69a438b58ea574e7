//! Jobs with a terminal. The terminal is the node's: what runs in it is hung up on when the node ends.

use std::io;

use pty_process::{Pty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};

use super::keeper::Begun;
use super::spool::Spool;

const BLOCK: usize = 16 << 10;
/// End of input, as a terminal is told.
pub(super) const END_OF_INPUT: u8 = 4;
/// Texts that wait to be typed; who has more waits.
const TYPED: usize = 4;

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// Something that is done at a terminal.
#[derive(Debug)]
pub(super) enum Typed {
    Text {
        bytes: Vec<u8>,
        done: oneshot::Sender<()>,
    },
    /// Its window has another size.
    Size(Screen),
}

/// Types at a terminal.
#[derive(Debug, Clone)]
pub(super) struct Keyboard(mpsc::Sender<Typed>);

impl Keyboard {
    pub(super) fn new() -> (Self, mpsc::Receiver<Typed>) {
        let (sender, receiver) = mpsc::channel(TYPED);
        (Self(sender), receiver)
    }

    /// What is typed before anything else, and then the end of input. There is room for it: nothing was typed before.
    pub(super) fn begin_with(&self, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(END_OF_INPUT);
        let _ = self.0.try_send(Typed::Text { bytes, done: oneshot::channel().0 });
    }

    /// Ends when the terminal has taken it all; false when there is no terminal any more.
    pub(super) async fn press(&self, bytes: Vec<u8>) -> bool {
        let (done, typed) = oneshot::channel();
        self.0.send(Typed::Text { bytes, done }).await.is_ok() && typed.await.is_ok()
    }

    /// Ends when it will be typed for sure, after what waits: what it answers ends when it was. None: there is no terminal any
    /// more.
    pub(super) async fn queue(&self, bytes: Vec<u8>) -> Option<oneshot::Receiver<()>> {
        let (done, typed) = oneshot::channel();
        self.0.send(Typed::Text { bytes, done }).await.ok().map(|()| typed)
    }

    pub(super) async fn resize(&self, screen: Screen) -> bool {
        self.0.send(Typed::Size(screen)).await.is_ok()
    }
}

/// Starts a command as the leader of a session of its own.
pub(super) fn start(begun: &Begun<'_>, screen: Screen) -> io::Result<(Child, Pty)> {
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

/// Keeps what the terminal shows and types what is to be typed, until nobody has it open inside.
pub(super) async fn pump(pty: Pty, spool: Spool, mut keys: mpsc::Receiver<Typed>) {
    let (mut from, mut to) = pty.into_split();
    let show = async {
        let mut file = tokio::fs::OpenOptions::new().append(true).open(spool.path()).await?;
        let mut block = vec![0; BLOCK];
        // It fails where it would end: a terminal that nobody has open gives an error.
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
                // What runs in it is told by the system.
                Typed::Size(screen) => {
                    let _ = to.resize(Size::new(screen.rows, screen.cols));
                }
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        shown = show => if let Err(error) = shown {
            tracing::warn!(%error, "what a terminal shows cannot be kept");
        },
        () = listen => {}
    }
}
