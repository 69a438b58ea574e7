//! One run of a snippet, seen through to its end: whoever wanted it may be gone by then.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::head_and_tail::Kept;
use crate::launch::{Launch, Launcher, packed};
use crate::tools::output::{Source, Stream};
use crate::warden::Report;

const BLOCK: usize = 64 << 10;
/// For what is left in the pipes, after everything has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// For the warden to end everything and to say so.
const ENDING: Duration = Duration::from_secs(15);
/// No report is as long as this.
const REPORT: u64 = 64 << 10;

/// What a snippet writes.
#[derive(Debug)]
pub(super) struct Written {
    id: String,
    stdout: Mutex<Kept>,
    stderr: Mutex<Kept>,
    ended: watch::Sender<bool>,
}

impl Written {
    pub(super) fn new(id: &str, bytes: usize) -> Self {
        Self {
            id: id.to_owned(),
            stdout: Mutex::new(Kept::new(bytes)),
            stderr: Mutex::new(Kept::new(bytes)),
            ended: watch::Sender::new(false),
        }
    }

    pub(super) fn kept(&self, stream: Stream) -> std::sync::MutexGuard<'_, Kept> {
        let kept = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Reads until there is no more, or more than `most`.
    async fn take(&self, stream: Stream, from: Option<impl AsyncRead + Unpin>, most: u64) -> bool {
        let Some(mut from) = from else { return false };
        let mut block = vec![0; BLOCK];
        loop {
            match from.read(&mut block).await {
                Ok(0) | Err(_) => return false,
                Ok(bytes) => {
                    let mut kept = self.kept(stream);
                    kept.push(&block[..bytes]);
                    if kept.size() > most {
                        return true;
                    }
                }
            }
        }
    }
}

impl Source for Written {
    fn id(&self) -> &str {
        &self.id
    }

    fn size(&self, stream: Stream) -> u64 {
        self.kept(stream).size()
    }

    async fn part(&self, stream: Stream, from: u64, limit: usize) -> Option<(u64, Vec<u8>)> {
        Some(self.kept(stream).part(from, limit))
    }

    async fn ended(&self) {
        // The sender is `self`: the wait does not end for want of one.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// What is to be run.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) launcher: Launcher,
    pub(super) launch: Launch,
    pub(super) cwd: PathBuf,
    pub(super) environment: Vec<(String, String)>,
    /// Bytes of each output, after which it is ended.
    pub(super) most_output: u64,
}

/// How it went.
#[derive(Debug)]
pub(super) enum Ended {
    Told(Report),
    /// It wrote more than it may.
    TooMuch(Report),
    /// Nobody could say: who watched it was killed.
    Unwatched,
}

/// Runs a snippet to its end, or until it is not wanted any more.
pub(super) async fn run(start: &Start, written: &Written, unwanted: &CancellationToken) -> io::Result<Ended> {
    let (mut control, theirs) = UnixStream::pair()?;
    let mut child = spawn(start, theirs)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut too_much, mut told) = (false, Vec::new());
    {
        let reading = async {
            let stdout = written.take(Stream::Stdout, stdout, start.most_output);
            let stderr = written.take(Stream::Stderr, stderr, start.most_output);
            tokio::pin!(stdout, stderr);
            // Either one that is too much is enough; one that is closed is not the end.
            tokio::select! {
                true = &mut stdout => true,
                true = &mut stderr => true,
                else => false,
            }
        };
        tokio::pin!(reading);
        let mut read = false;
        tokio::select! {
            _ = report(&mut control, &mut told) => {}
            () = unwanted.cancelled() => {}
            over = &mut reading => (read, too_much) = (true, over),
        }
        if told.is_empty() {
            if too_much || unwanted.is_cancelled() {
                told = ended(&mut control, &mut child).await;
            } else {
                // Its outputs are closed, and it goes on.
                tokio::select! {
                    _ = report(&mut control, &mut told) => {}
                    () = unwanted.cancelled() => told = ended(&mut control, &mut child).await,
                }
            }
        }
        let _ = timeout(ENDING, child.wait()).await;
        if !read && let Ok(over) = timeout(LAST_WORDS, &mut reading).await {
            too_much |= over;
        }
    }
    Ok(match serde_json::from_slice::<Report>(&told) {
        Ok(report) if too_much => Ended::TooMuch(report),
        Ok(report) => Ended::Told(report),
        Err(_) => Ended::Unwatched,
    })
}

fn spawn(start: &Start, control: UnixStream) -> io::Result<Child> {
    let words = start.launcher.words(&start.launch)?;
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let control = control.into_std()?;
    // The other end is to wait when it reads.
    control.set_nonblocking(false)?;
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(packed(&start.environment))
        .current_dir(&start.cwd)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(control)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

async fn report(control: &mut UnixStream, told: &mut Vec<u8>) -> io::Result<()> {
    control.take(REPORT).read_to_end(told).await?;
    Ok(())
}

/// Has the warden end everything, by hanging up; whoever does not within a while is killed.
async fn ended(control: &mut UnixStream, child: &mut Child) -> Vec<u8> {
    use tokio::io::AsyncWriteExt as _;
    let mut told = Vec::new();
    let _ = control.shutdown().await;
    if timeout(ENDING, report(control, &mut told)).await.is_err() {
        tracing::warn!("what watches a snippet does not end it");
        let _ = child.start_kill();
    }
    told
}
