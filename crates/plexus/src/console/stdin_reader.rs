//! Reads standard input on a separate thread. A blocking read cannot be cancelled, and must not keep the program from
//! ending.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;

use tokio::sync::mpsc;

/// Maximum number of bytes per read.
const BLOCK_SIZE: usize = 64 << 10;
/// Maximum number of blocks in the channel. The thread blocks if it is full.
const QUEUE_LEN: usize = 4;

pub(crate) struct StdinReader(mpsc::Receiver<io::Result<Vec<u8>>>);

impl StdinReader {
    pub(crate) fn of_stdin() -> io::Result<Self> {
        // Bypasses the buffer of the standard library, which would wait for more input.
        let mut stdin = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (sender, receiver) = mpsc::channel(QUEUE_LEN);
        std::thread::Builder::new().name("standard input".to_owned()).spawn(move || {
            let mut block = vec![0; BLOCK_SIZE];
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

    /// Waits for input and returns all that is available. None at the end of the input.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        let mut first = self.0.recv().await?;
        if let Ok(bytes) = &mut first {
            while bytes.len() < BLOCK_SIZE
                && let Ok(Ok(more)) = self.0.try_recv()
            {
                bytes.extend_from_slice(&more);
            }
        }
        Some(first)
    }
}
