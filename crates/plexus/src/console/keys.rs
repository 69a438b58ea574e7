//! What comes in on standard input, read by a thread of its own: a read cannot be given up, and must not keep the program
//! from ending.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use tokio::sync::mpsc;

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;
/// Blocks that wait to be sent; a thread that has more waits.
const WAITING: usize = 4;

pub(crate) struct Keys(mpsc::Receiver<io::Result<Vec<u8>>>);

impl Keys {
    pub(crate) fn of_stdin() -> io::Result<Self> {
        // Not through the buffer of the standard library, which would wait for more.
        let mut stdin = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (sender, receiver) = mpsc::channel(WAITING);
        std::thread::Builder::new().name("standard input".to_owned()).spawn(move || {
            let mut block = vec![0; BLOCK];
            loop {
                let read = match stdin.read(&mut block) {
                    Ok(0) => return,
                    Ok(read) => Ok(block[..read].to_vec()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self(receiver))
    }

    /// All that is there, once there is something; none: it has ended.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        let mut first = self.0.recv().await?;
        if let Ok(bytes) = &mut first {
            while bytes.len() < BLOCK
                && let Ok(Ok(more)) = self.0.try_recv()
            {
                bytes.extend_from_slice(&more);
            }
        }
        Some(first)
    }
}
