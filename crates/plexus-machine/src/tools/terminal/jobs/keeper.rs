//! The keeper of a job: a shell that starts the command, waits for it, and writes down how it ended.
//!
//! It belongs to no node. Should the node be killed, the command goes on, its output goes where it went before, and the
//! next node reads in the folder what became of it. Keeper and command are one process group, which is what is signalled;
//! the keeper only notes that it was, so it outlives everything but `KILL`. After that one, nobody is left to ask.
//!
//! A job that can be written to has a pipe with a name as its standard input. As long as somebody holds the other end
//! of it there is no end of input; that is a second small shell, which lets go when `close` is opened for writing.

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
/// What a job takes at most to open its standard input.
const BEGIN: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);
/// Lets go of the standard input.
const CLOSE: &str = "close";

/// `$1` is the folder, the rest is the command. Nothing but the shell itself is used: the command's `PATH` may be of no use.
/// `exec` keeps what is a word of the shell from being run by the keeper.
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

/// The command of a job, without what the keeper adds.
#[derive(Debug)]
pub(super) struct Begun<'l> {
    pub(super) argv: &'l [OsString],
    pub(super) cwd: &'l Path,
    pub(super) environment: Vec<(String, String)>,
}

/// Where the standard input of a job comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// There is none.
    Nothing,
    /// This, and then its end.
    Text(String),
    /// Whoever writes to it.
    Open,
}

/// Starts a job whose folder is there. The keeper does not end with who started it.
pub(super) fn start(folder: &Path, begun: &Begun<'_>, stdin: &Stdin) -> io::Result<Child> {
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

/// There it takes unsafe code to make one, or a program.
#[cfg(target_vendor = "apple")]
fn make_pipe(path: &Path) -> io::Result<()> {
    let made = std::process::Command::new("/usr/bin/mkfifo").args(["-m", "600"]).arg(path).status()?;
    made.success().then_some(()).ok_or_else(|| io::Error::other("mkfifo failed"))
}

/// Whether something can be written to a job.
pub(super) fn is_open(folder: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs_err::symlink_metadata(folder.join(STDIN)).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Writes to a job, as much as it takes within `patience`. An error of the kind `BrokenPipe`: it reads no more.
pub(super) async fn write(folder: &Path, bytes: &[u8], patience: Duration) -> io::Result<usize> {
    let mut written = 0;
    write_counted(folder, bytes, patience, |taken| written += taken).await?;
    Ok(written)
}

/// The same for who wants to know how much was written also when nobody waits for it any more: `count` is told at once.
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
            let taken = sender.write(&bytes[written..]).await?;
            written += taken;
            count(taken);
        }
        Ok(())
    };
    tokio::time::timeout(patience, all).await.unwrap_or(Ok(()))
}

/// Ends the standard input of a job.
pub(super) async fn close(folder: &Path, patience: Duration) -> io::Result<()> {
    open(&folder.join(CLOSE), patience).await.map(drop)
}

/// Opens a pipe whose other end may not be there yet.
async fn open(path: &Path, patience: Duration) -> io::Result<pipe::Sender> {
    let deadline = tokio::time::Instant::now() + patience.min(BEGIN);
    loop {
        match pipe::OpenOptions::new().open_sender(path) {
            Ok(sender) => return Ok(sender),
            // ENXIO: nobody has it open for reading.
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
