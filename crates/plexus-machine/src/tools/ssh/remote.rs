//! Runs a command on a host.
//!
//! The command line for ssh is always the same, and any login shell understands it: it starts a `sh` that reports its
//! pid and reads its instructions from standard input. So no text of a caller is ever on a command line, here or on
//! the host; nothing has run before the `sh` has reported; and from then on its process group is known and can be
//! ended. The `sh` reports the exit code itself, because ssh uses 255 both for a lost connection and for a command
//! that exits with 255, and waits for all processes that a command leaves behind.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::foreign_text::{clean, cut};
use plexus_kit::process::Group;
use plexus_kit::{Stage, shell};
use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::Instant;

use super::live::Live;
use super::marks::{MarkedEnd, Marks};
use super::master::unusable;
use super::pool::{Lease, Pool};
use crate::tools::output::Captured;

/// Has the same meaning in csh, fish and sh.
const OPENING: &str = r#"exec sh -c 'echo "plexus-ready $$" >&2; IFS= read -r p && eval "$p"'"#;
/// How long the host may take to start a shell.
const READY: Duration = Duration::from_secs(30);
/// How long to wait for more output after the end; each block restarts the timer.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The time to end a command on a host: it is asked to end, and killed two seconds later.
const ENDING: Duration = Duration::from_secs(6);
/// How long a broken connection may take to be detected: a user of the connection may notice before the master has
/// ended.
pub(super) const NOTICING: Duration = Duration::from_secs(2);
const BLOCK: usize = 32 << 10;

/// The number of bytes retained of the beginning of an output, and as many of its end.
const STDOUT_SHOWN: usize = 24 << 10;
const STDERR_SHOWN: usize = 8 << 10;

/// A command to run on a host.
#[derive(Debug)]
pub(super) struct Program {
    /// Argument of `sh -c`.
    pub(super) line: String,
    pub(super) cwd: Option<String>,
    pub(super) stdin: String,
}

/// The reason there is no result.
#[derive(Debug)]
pub(super) enum NotRun {
    /// The connection was lost before the command was sent; another connection can be used.
    Gone,
    For(CallError),
}

impl From<CallError> for NotRun {
    fn from(error: CallError) -> Self {
        Self::For(error)
    }
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct Ran {
    /// `None` if it was killed before it could report.
    pub(super) exit_code: Option<i32>,
    pub(super) timed_out: bool,
    pub(super) left_running: bool,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
}

pub(super) async fn run(
    pool: &Pool,
    lease: Lease,
    program: &Program,
    deadline: Instant,
    live: &mut Live<'_>,
) -> Result<Ran, NotRun> {
    let lease = Arc::new(lease);
    let started = pool.client().running(lease.target(), lease.socket(), OPENING).spawn().map_err(unusable)?;
    let mut process = Process::of(started)?;
    let nonce = format!("{:032x}", rand::random::<u128>());
    let mut marks = Marks::new(&nonce);
    let mut ran = Ran {
        exit_code: None,
        timed_out: false,
        left_running: false,
        stdout: Captured::new(STDOUT_SHOWN),
        stderr: Captured::new(STDERR_SHOWN),
    };
    let ready = process.ready(&mut marks, &mut ran);
    let number = match tokio::time::timeout_at(deadline.min(Instant::now() + READY), ready).await {
        Ok(Some(number)) => number,
        Ok(None) => return Err(not_begun(&lease, ran).await),
        Err(_) => return Err(silent(&lease).into()),
    };
    let mut leash = Leash { pool: pool.clone(), lease: lease.clone(), number: Some(number) };
    let ended = process.attend(program, &nonce, &mut marks, &mut ran, live, deadline);
    match ended.await {
        End::TimedOut => {
            ran.timed_out = true;
            leash.number = None;
            end_on_host(pool, &lease, number).await;
            process.last_words(&mut marks, &mut ran, live).await;
            ran.exit_code = marks.ended().and_then(MarkedEnd::code);
            return Ok(ran);
        }
        End::Left => ran.left_running = true,
        End::Closed => {}
    }
    leash.number = None;
    match marks.ended() {
        Some(MarkedEnd::Code(code)) => ran.exit_code = Some(code),
        Some(MarkedEnd::NoFolder) => return Err(no_folder(program, ran).into()),
        None if lease.is_gone(NOTICING).await => return Err(lost(&lease, ran).into()),
        // The `sh` that would have reported was killed on the host with the command.
        None => {}
    }
    Ok(ran)
}

/// An ssh process that uses a connection. Dropping it kills it.
struct Process {
    _group: Group,
    child: Child,
    stdin: Option<tokio::process::ChildStdin>,
    stdout: Option<tokio::process::ChildStdout>,
    stderr: Option<tokio::process::ChildStderr>,
}

/// The reason to stop waiting.
enum End {
    /// Both streams have ended.
    Closed,
    /// The command has ended, but a process that it left holds a stream open.
    Left,
    TimedOut,
}

impl Process {
    fn of(mut child: Child) -> Result<Self, CallError> {
        let pid = child.id().ok_or_else(|| CallError::new(ErrorCode::Internal, "ssh has no pid"))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Self { _group: Group::of(pid), child, stdin, stdout, stderr })
    }

    /// The pid of the `sh`; `None` if the host did not start one.
    async fn ready(&mut self, marks: &mut Marks, ran: &mut Ran) -> Option<u32> {
        let stderr = self.stderr.as_mut()?;
        let mut block = vec![0; BLOCK];
        loop {
            match stderr.read(&mut block).await {
                Ok(read @ 1..) => {
                    if let Some(number) = marks.opening(&block[..read], &mut |bytes| ran.stderr.push(bytes)) {
                        return Some(number);
                    }
                }
                _ => {
                    marks.rest(&mut |bytes| ran.stderr.push(bytes));
                    let _ = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
                    return None;
                }
            }
        }
    }

    async fn attend(
        &mut self,
        program: &Program,
        nonce: &str,
        marks: &mut Marks,
        ran: &mut Ran,
        live: &mut Live<'_>,
        deadline: Instant,
    ) -> End {
        let stdin = self.stdin.take();
        let order = order(program, nonce);
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command need not read all of its input, and may close the pipe.
                if stdin.write_all(order.as_bytes()).await.is_ok() {
                    let _ = stdin.write_all(program.stdin.as_bytes()).await;
                }
            }
        };
        tokio::pin!(feed);
        let (mut out, mut err) = (vec![0; BLOCK], vec![0; BLOCK]);
        let mut fed = false;
        while self.stdout.is_some() || self.stderr.is_some() {
            tokio::select! {
                () = &mut feed, if !fed => fed = true,
                read = read(&mut self.stdout, &mut out), if self.stdout.is_some() => {
                    ran.stdout.push(&out[..read]);
                    live.stdout(&out[..read]);
                }
                read = read(&mut self.stderr, &mut err), if self.stderr.is_some() => {
                    marks.closing(&err[..read], &mut |bytes| {
                        ran.stderr.push(bytes);
                        live.stderr(bytes);
                    });
                }
                () = tokio::time::sleep_until(deadline) => return End::TimedOut,
                () = live.due() => live.tell(),
                () = tokio::time::sleep(LAST_WORDS), if marks.ended().is_some() => {
                    live.tell();
                    return End::Left;
                }
            }
        }
        marks.rest(&mut |bytes| ran.stderr.push(bytes));
        live.tell();
        End::Closed
    }

    /// Reads the remaining output of a command that was ended.
    async fn last_words(&mut self, marks: &mut Marks, ran: &mut Ran, live: &mut Live<'_>) {
        let (mut out, mut err) = (vec![0; BLOCK], vec![0; BLOCK]);
        while self.stdout.is_some() || self.stderr.is_some() {
            tokio::select! {
                read = read(&mut self.stdout, &mut out), if self.stdout.is_some() => ran.stdout.push(&out[..read]),
                read = read(&mut self.stderr, &mut err), if self.stderr.is_some() => {
                    marks.closing(&err[..read], &mut |bytes| ran.stderr.push(bytes));
                }
                () = tokio::time::sleep(LAST_WORDS) => break,
            }
        }
        marks.rest(&mut |bytes| ran.stderr.push(bytes));
        live.tell();
    }
}

/// Returns the number of bytes read; at the end, the stream is closed.
async fn read(stream: &mut Option<impl tokio::io::AsyncRead + Unpin>, block: &mut [u8]) -> usize {
    let Some(open) = stream else { return 0 };
    match open.read(block).await {
        Ok(read @ 1..) => read,
        _ => {
            *stream = None;
            0
        }
    }
}

/// Ends a command when it is dropped: cancelling a call drops its future.
struct Leash {
    pool: Pool,
    lease: Arc<Lease>,
    number: Option<u32>,
}

impl Drop for Leash {
    fn drop(&mut self) {
        let Some(number) = self.number.take() else { return };
        let (pool, lease) = (self.pool.clone(), self.lease.clone());
        let supervisor = pool.supervisor().clone();
        supervisor.spawn(Stage::Work, "ending a remote command", async move {
            end_on_host(&pool, &lease, number).await
        });
    }
}

/// Asks the process group to end, then kills it. A server makes each command the leader of a process group.
async fn end_on_host(pool: &Pool, lease: &Lease, number: u32) {
    let line = format!(
        "exec sh -c 'exec 2>/dev/null; n={number}; kill -s TERM -- -$n || kill -s TERM $n; for i in 1 2 3 4 5 6 7 8 9 10; \
         do kill -s 0 -- -$n || exit 0; sleep 0.2; done; kill -s KILL -- -$n || kill -s KILL $n'"
    );
    let mut ssh = pool.client().running(lease.target(), lease.socket(), &line);
    // On timeout it is dropped and thereby killed.
    if tokio::time::timeout(ENDING, ssh.output()).await.is_err() {
        tracing::warn!(host = %lease.target().host, "a command on a host may not have ended");
    }
}

/// The instructions for the `sh`: one line, in which every special byte is written as an octal escape.
fn order(program: &Program, nonce: &str) -> String {
    let folder = match &program.cwd {
        None => String::new(),
        Some(cwd) => format!("cd -- {} || {{ printf '\\n{nonce} cwd\\n' >&2; exit 1; }}\n", folder(cwd)),
    };
    let script =
        format!("{folder}sh -c {}\ns=$?\nprintf '\\n{nonce} %s\\n' $s >&2\nexit $s", quoted(&program.line));
    let mut order = "eval \"$(printf %b '".to_owned();
    for byte in script.bytes() {
        match byte.is_ascii_alphanumeric() || b" ./-_".contains(&byte) {
            true => order.push(char::from(byte)),
            false => order.push_str(&format!("\\0{byte:03o}")),
        }
    }
    order.push_str("')\"\n");
    order
}

/// A folder on the host; `~` is the home folder there.
fn folder(cwd: &str) -> String {
    match cwd.strip_prefix('~') {
        Some("") => "\"$HOME\"".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("\"$HOME\"{}", quoted(rest)),
        _ => quoted(cwd),
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The command line for a program and its arguments. `exec` runs only programs, not shell builtins.
pub(super) fn line_of(argv: &[String]) -> String {
    let words: Vec<_> = argv.iter().map(|word| shell::word(word)).collect();
    format!("exec {}", words.join(" "))
}

/// The last lines of the error output, to append to an error message.
fn said(stderr: Captured) -> String {
    let text = stderr.excerpt().text;
    let lines: Vec<_> =
        text.lines().map(|line| clean(line.as_bytes())).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n");
    if last.is_empty() { last } else { format!(":\n{}", cut(&last, 1_000)) }
}

async fn not_begun(lease: &Lease, ran: Ran) -> NotRun {
    if lease.is_gone(NOTICING).await {
        return NotRun::Gone;
    }
    NotRun::For(refused(lease, &said(ran.stderr)))
}

fn refused(lease: &Lease, said: &str) -> CallError {
    let target = lease.target();
    if said.contains("Session open refused") {
        return CallError::new(
            ErrorCode::Overloaded,
            format!("{target} accepts no more sessions on this connection"),
        )
        .hint("Nothing was run. Wait until other commands on it have ended.");
    }
    CallError::new(ErrorCode::ToolFailed, format!("{target} did not start a shell for the command{said}"))
        .hint("Nothing was run. Commands require a host with a POSIX sh that the user may run; copying files may still work.")
        .before_it_ran()
}

/// A connection that no longer carries data looks like a working one, so it is closed.
fn silent(lease: &Lease) -> CallError {
    lease.end();
    CallError::new(ErrorCode::Unavailable, format!("{} did not answer in time", lease.target()))
        .hint("Nothing was run. Call again to use a new connection.")
        .before_it_ran()
}

fn no_folder(program: &Program, ran: Ran) -> CallError {
    let cwd = program.cwd.as_deref().unwrap_or_default();
    CallError::new(
        ErrorCode::NotFound,
        format!("the folder {cwd:?} cannot be entered on the host{}", said(ran.stderr)),
    )
    .hint("Nothing was run. Give a `cwd` that exists.")
    .before_it_ran()
}

fn lost(lease: &Lease, ran: Ran) -> CallError {
    let message = format!("the connection to {} was lost while the command ran", lease.target());
    let details = json!({ "stdout": ran.stdout.excerpt(), "stderr": ran.stderr.excerpt() });
    CallError::new(ErrorCode::Interrupted, message)
        .hint("It may have completed, been interrupted, or still be running on the host: check before you repeat it. Its output so far is in the details.")
        .details(details)
}

#[cfg(test)]
mod tests;
