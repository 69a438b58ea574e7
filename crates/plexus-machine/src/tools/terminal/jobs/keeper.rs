//! The keeper of a job: a shell that starts the command, waits for it, and records its exit status.
//!
//! The keeper does not depend on the node process. If the node is killed, the command continues, its output goes to
//! the same files, and the next node reads the result from the folder. Keeper and command share one process group,
//! which receives the signals. The keeper traps all signals except `KILL`, after which no exit status is recorded.
//!
//! A job with open input has a named pipe as its standard input. A second small shell holds the other end open, so
//! that there is no end of input, and releases it when `close` is opened for writing.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::record::STDIN;

const SHELL: &str = "/bin/sh";
/// The maximum time a job takes to open its standard input.
const BEGIN: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);
/// Opening this pipe for writing closes the standard input.
const CLOSE: &str = "close";

/// `$1` is the folder, the rest is the command. The script uses shell builtins only, because the command's `PATH` may
/// be unusable. `exec` prevents a command name that is also a shell builtin from running in the keeper.
const SCRIPT: &str = r#"
job=$1; shift
trap : HUP INT QUIT PIPE ALRM USR1 USR2 TERM
born=
{ read -r born </proc/$$/stat; } 2>/dev/null
echo "${born:-$$}" >"$job/born" || exit 126
holder=
if [ -p "$job/close" ]; then
    ( trap '' HUP INT QUIT PIPE ALRM USR1 USR2 TERM; read -r _ <"$job/close" ) >"$job/stdin" &
    holder=$!
fi
(exec "$@") <"$job/stdin" >>"$job/stdout" 2>>"$job/stderr"
code=$?
echo "$code" >"$job/exit"
[ -z "$holder" ] || { kill -s KILL "$holder"; wait "$holder"; }
exit "$code"
"#;

/// The command of a job, without the keeper's additions.
#[derive(Debug)]
pub(super) struct JobCommand<'l> {
    pub(super) argv: &'l [OsString],
    pub(super) cwd: &'l Path,
    pub(super) environment: Vec<(String, String)>,
}

/// The standard input of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// No input.
    Nothing,
    /// This text, followed by the end of input.
    Text(String),
    /// Open for later writes.
    Open,
}

/// Starts a job in an existing folder. The keeper outlives the process that started it.
pub(super) fn start(folder: &Path, begun: &JobCommand<'_>, stdin: &Stdin) -> io::Result<Child> {
    match stdin {
        Stdin::Nothing => std::os::unix::fs::symlink("/dev/null", folder.join(STDIN))?,
        Stdin::Text(text) => plexus_kit::private_file::write_unsynced(&folder.join(STDIN), text.as_bytes())?,
        Stdin::Open => {
            for name in [STDIN, CLOSE] {
                make_pipe(&folder.join(name))?;
            }
        }
    }
    Command::new(SHELL)
        .args(["-c", SCRIPT, "plexus-job"])
        .arg(folder)
        .args(begun.argv)
        .env_clear()
        .envs(begun.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(begun.cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

#[cfg(not(target_vendor = "apple"))]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};

    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// On Apple systems, creating a pipe takes unsafe code or a program.
#[cfg(target_vendor = "apple")]
fn make_pipe(path: &Path) -> io::Result<()> {
    let made = std::process::Command::new("/usr/bin/mkfifo").args(["-m", "600"]).arg(path).status()?;
    made.success().then_some(()).ok_or_else(|| io::Error::other("mkfifo failed"))
}

/// Whether input can be written to a job.
pub(super) fn is_open(folder: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs_err::symlink_metadata(folder.join(STDIN)).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Writes as much as the job accepts within `patience`. Fails with `BrokenPipe` if the job no longer reads.
pub(super) async fn write(folder: &Path, bytes: &[u8], patience: Duration) -> io::Result<usize> {
    let mut written = 0;
    write_counted(folder, bytes, patience, |accepted| written += accepted).await?;
    Ok(written)
}

/// Like `write`, for callers that need the number of written bytes even if they are dropped: `count` is called
/// after each write.
pub(super) async fn write_counted(
    folder: &Path,
    bytes: &[u8],
    patience: Duration,
    mut count: impl FnMut(usize),
) -> io::Result<()> {
    let mut sender = open(&folder.join(STDIN), patience).await?;
    let all = async {
        let mut written = 0;
        while written < bytes.len() {
            let accepted = sender.write(&bytes[written..]).await?;
            written += accepted;
            count(accepted);
        }
        Ok(())
    };
    tokio::time::timeout(patience, all).await.unwrap_or(Ok(()))
}

/// Closes the standard input of a job.
pub(super) async fn close(folder: &Path, patience: Duration) -> io::Result<()> {
    open(&folder.join(CLOSE), patience).await.map(drop)
}

/// Opens a pipe whose reader may not exist yet.
async fn open(path: &Path, patience: Duration) -> io::Result<pipe::Sender> {
    let deadline = tokio::time::Instant::now() + patience.min(BEGIN);
    loop {
        match pipe::OpenOptions::new().open_sender(path) {
            Ok(sender) => return Ok(sender),
            // ENXIO: the pipe is not open for reading.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                if tokio::time::Instant::now() >= deadline {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                tokio::time::sleep(STEP).await;
            }
            Err(error) => return Err(error),
        }
    }
}
