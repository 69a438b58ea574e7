//! One run of a snippet, which is completed even if its caller is gone.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::launch::{Launch, Launcher, packed};
use crate::tools::output::{Captured, Stream};
use crate::warden::Report;

const BLOCK: usize = 64 << 10;
/// How long to read the rest of the pipes after all processes have ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);
/// How long the warden may take to end all processes and to report.
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum size of a report.
const MAX_REPORT: u64 = 64 << 10;

/// Reads until the end, or until more than `limit` bytes were read; returns whether that was exceeded.
async fn read_stream(
    written: &Captured,
    stream: Stream,
    from: Option<impl AsyncRead + Unpin>,
    limit: u64,
) -> bool {
    let Some(mut from) = from else { return false };
    let mut block = vec![0; BLOCK];
    loop {
        match from.read(&mut block).await {
            Ok(0) | Err(_) => return false,
            Ok(bytes) => {
                let mut retained = written.retained(stream);
                retained.push(&block[..bytes]);
                if retained.size() > limit {
                    return true;
                }
            }
        }
    }
}

/// A snippet to run.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) launcher: Launcher,
    pub(super) launch: Launch,
    pub(super) cwd: PathBuf,
    pub(super) environment: Vec<(String, String)>,
    /// The number of bytes of each output stream after which it is killed.
    pub(super) most_output: u64,
}

/// The result of a run.
#[derive(Debug)]
pub(super) enum RunEnd {
    Reported(Report),
    /// Its output exceeded the limit.
    TooMuch(Report),
    /// There is no report, because the warden was killed.
    Unwatched,
}

/// Runs a snippet until it ends or is cancelled.
pub(super) async fn run(
    start: &Start,
    written: &Captured,
    unwanted: &CancellationToken,
) -> io::Result<RunEnd> {
    let (mut control, theirs) = UnixStream::pair()?;
    let mut child = spawn(start, theirs)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut too_much, mut report_bytes) = (false, Vec::new());
    {
        let reading = async {
            let stdout = read_stream(written, Stream::Stdout, stdout, start.most_output);
            let stderr = read_stream(written, Stream::Stderr, stderr, start.most_output);
            tokio::pin!(stdout, stderr);
            // One stream over the limit is enough; a single closed stream is not the end.
            tokio::select! {
                true = &mut stdout => true,
                true = &mut stderr => true,
                else => false,
            }
        };
        tokio::pin!(reading);
        let mut read = false;
        tokio::select! {
            _ = read_report(&mut control, &mut report_bytes) => {}
            () = unwanted.cancelled() => {}
            over = &mut reading => (read, too_much) = (true, over),
        }
        if report_bytes.is_empty() {
            if too_much || unwanted.is_cancelled() {
                report_bytes = end_and_report(&mut control, &mut child).await;
            } else {
                // Both streams are closed, but the snippet is still running.
                tokio::select! {
                    _ = read_report(&mut control, &mut report_bytes) => {}
                    () = unwanted.cancelled() => report_bytes = end_and_report(&mut control, &mut child).await,
                }
            }
        }
        let _ = timeout(END_TIMEOUT, child.wait()).await;
        if !read && let Ok(over) = timeout(OUTPUT_GRACE, &mut reading).await {
            too_much |= over;
        }
    }
    Ok(match serde_json::from_slice::<Report>(&report_bytes) {
        Ok(report) if too_much => RunEnd::TooMuch(report),
        Ok(report) => RunEnd::Reported(report),
        Err(_) => RunEnd::Unwatched,
    })
}

fn spawn(start: &Start, control: UnixStream) -> io::Result<Child> {
    let words = start.launcher.command_line(&start.launch)?;
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let control = control.into_std()?;
    // The warden reads its end with blocking calls.
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

async fn read_report(control: &mut UnixStream, report_bytes: &mut Vec<u8>) -> io::Result<()> {
    control.take(MAX_REPORT).read_to_end(report_bytes).await?;
    Ok(())
}

/// Makes the warden end all processes by closing its socket, and kills it if it does not.
async fn end_and_report(control: &mut UnixStream, child: &mut Child) -> Vec<u8> {
    use tokio::io::AsyncWriteExt as _;
    let mut report_bytes = Vec::new();
    let _ = control.shutdown().await;
    if timeout(END_TIMEOUT, read_report(control, &mut report_bytes)).await.is_err() {
        tracing::warn!("the warden of a snippet does not end it");
        let _ = child.start_kill();
    }
    report_bytes
}
