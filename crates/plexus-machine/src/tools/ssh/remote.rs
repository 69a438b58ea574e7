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

use super::marker_filter::{MarkedEnd, MarkerFilter};
use super::master::ssh_start_error;
use super::pool::{Lease, Pool};
use crate::tools::output::{Captured, Stream};

/// Has the same meaning in csh, fish and sh.
const OPENING: &str = r#"exec sh -c 'echo "plexus-ready $$" >&2; IFS= read -r p && eval "$p"'"#;
/// How long the host may take to start a shell.
const SHELL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for more output after the end; each block restarts the timer.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);
/// The time to end a command on a host: it is asked to end, and killed two seconds later.
const END_TIMEOUT: Duration = Duration::from_secs(6);
/// How long a broken connection may take to be detected: a user of the connection may notice before the master has
/// ended.
pub(super) const LOSS_DETECTION_TIME: Duration = Duration::from_secs(2);
const BLOCK: usize = 32 << 10;

/// The number of bytes retained of each output.
const STDOUT_SHOWN: usize = 48 << 10;
const STDERR_SHOWN: usize = 16 << 10;

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
pub(super) enum RunError {
    /// The connection was lost before the command was sent; another connection can be used.
    Gone,
    For(CallError),
}

impl From<CallError> for RunError {
    fn from(error: CallError) -> Self {
        Self::For(error)
    }
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct CommandResult {
    /// `None` if it was killed before it could report.
    pub(super) exit_code: Option<i32>,
    pub(super) timed_out: bool,
    pub(super) left_running: bool,
}

/// The output of a command on a host.
pub(super) fn captured(host: &str) -> Captured {
    Captured::new(("host", host), STDOUT_SHOWN, STDERR_SHOWN)
}

pub(super) async fn run(
    pool: &Pool,
    lease: Lease,
    program: &Program,
    deadline: Instant,
    output: &Captured,
) -> Result<CommandResult, RunError> {
    let lease = Arc::new(lease);
    let started = pool
        .client()
        .run_command(lease.target(), lease.socket(), OPENING)
        .spawn()
        .map_err(ssh_start_error)?;
    let mut process = Process::of(started)?;
    let nonce = format!("{:032x}", rand::random::<u128>());
    let mut marker_filter = MarkerFilter::new(&nonce);
    let mut result = CommandResult { exit_code: None, timed_out: false, left_running: false };
    let ready = process.wait_ready(&mut marker_filter, output);
    let number = match tokio::time::timeout_at(deadline.min(Instant::now() + SHELL_TIMEOUT), ready).await {
        Ok(Some(number)) => number,
        Ok(None) => return Err(not_started_error(&lease, output).await),
        Err(_) => return Err(unresponsive_error(&lease).into()),
    };
    let mut guard = RemoteCommandGuard { pool: pool.clone(), lease: lease.clone(), number: Some(number) };
    let ended = process.exchange(program, &nonce, &mut marker_filter, output, deadline);
    match ended.await {
        End::TimedOut => {
            result.timed_out = true;
            guard.number = None;
            end_on_host(pool, &lease, number).await;
            process.read_remaining_output(&mut marker_filter, output).await;
            result.exit_code = marker_filter.ended().and_then(MarkedEnd::code);
            return Ok(result);
        }
        End::Left => result.left_running = true,
        End::Closed => {}
    }
    guard.number = None;
    match marker_filter.ended() {
        Some(MarkedEnd::Code(code)) => result.exit_code = Some(code),
        Some(MarkedEnd::NoFolder) => return Err(missing_folder_error(program, output).into()),
        None if lease.is_lost(LOSS_DETECTION_TIME).await => return Err(lost_error(&lease, output).into()),
        // The `sh` that would have reported was killed on the host with the command.
        None => {}
    }
    Ok(result)
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
    async fn wait_ready(&mut self, marker_filter: &mut MarkerFilter, output: &Captured) -> Option<u32> {
        let stderr = self.stderr.as_mut()?;
        let mut block = vec![0; BLOCK];
        loop {
            match stderr.read(&mut block).await {
                Ok(read @ 1..) => {
                    if let Some(number) =
                        marker_filter.read_opening(&block[..read], &mut |bytes| push_stderr(output, bytes))
                    {
                        return Some(number);
                    }
                }
                _ => {
                    marker_filter.flush(&mut |bytes| push_stderr(output, bytes));
                    let _ = tokio::time::timeout(OUTPUT_GRACE, self.child.wait()).await;
                    return None;
                }
            }
        }
    }

    async fn exchange(
        &mut self,
        program: &Program,
        nonce: &str,
        marker_filter: &mut MarkerFilter,
        output: &Captured,
        deadline: Instant,
    ) -> End {
        let stdin = self.stdin.take();
        let shell_script = shell_script(program, nonce);
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command need not read all of its input, and may close the pipe.
                if stdin.write_all(shell_script.as_bytes()).await.is_ok() {
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
                    output.retained(Stream::Stdout).push(&out[..read]);
                }
                read = read(&mut self.stderr, &mut err), if self.stderr.is_some() => {
                    marker_filter.read_closing(&err[..read], &mut |bytes| push_stderr(output, bytes));
                }
                () = tokio::time::sleep_until(deadline) => return End::TimedOut,
                () = tokio::time::sleep(OUTPUT_GRACE), if marker_filter.ended().is_some() => return End::Left,
            }
        }
        marker_filter.flush(&mut |bytes| push_stderr(output, bytes));
        End::Closed
    }

    /// Reads the remaining output of a command that was ended.
    async fn read_remaining_output(&mut self, marker_filter: &mut MarkerFilter, output: &Captured) {
        let (mut out, mut err) = (vec![0; BLOCK], vec![0; BLOCK]);
        while self.stdout.is_some() || self.stderr.is_some() {
            tokio::select! {
                read = read(&mut self.stdout, &mut out), if self.stdout.is_some() => {
                    output.retained(Stream::Stdout).push(&out[..read]);
                }
                read = read(&mut self.stderr, &mut err), if self.stderr.is_some() => {
                    marker_filter.read_closing(&err[..read], &mut |bytes| push_stderr(output, bytes));
                }
                () = tokio::time::sleep(OUTPUT_GRACE) => break,
            }
        }
        marker_filter.flush(&mut |bytes| push_stderr(output, bytes));
    }
}

fn push_stderr(output: &Captured, bytes: &[u8]) {
    output.retained(Stream::Stderr).push(bytes);
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
struct RemoteCommandGuard {
    pool: Pool,
    lease: Arc<Lease>,
    number: Option<u32>,
}

impl Drop for RemoteCommandGuard {
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
    let mut ssh = pool.client().run_command(lease.target(), lease.socket(), &line);
    // On timeout it is dropped and thereby killed.
    if tokio::time::timeout(END_TIMEOUT, ssh.output()).await.is_err() {
        tracing::warn!(host = %lease.target().host, "a command on a host may not have ended");
    }
}

/// The instructions for the `sh`: one line, in which every special byte is written as an octal escape.
fn shell_script(program: &Program, nonce: &str) -> String {
    let folder = match &program.cwd {
        None => String::new(),
        Some(cwd) => format!("cd -- {} || {{ printf '\\n{nonce} cwd\\n' >&2; exit 1; }}\n", folder(cwd)),
    };
    let script = format!(
        "{folder}sh -c {}\ns=$?\nprintf '\\n{nonce} %s\\n' $s >&2\nexit $s",
        shell_quote(&program.line)
    );
    let mut shell_script = "eval \"$(printf %b '".to_owned();
    for byte in script.bytes() {
        match byte.is_ascii_alphanumeric() || b" ./-_".contains(&byte) {
            true => shell_script.push(char::from(byte)),
            false => shell_script.push_str(&format!("\\0{byte:03o}")),
        }
    }
    shell_script.push_str("')\"\n");
    shell_script
}

/// A folder on the host; `~` is the home folder there.
fn folder(cwd: &str) -> String {
    match cwd.strip_prefix('~') {
        Some("") => "\"$HOME\"".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("\"$HOME\"{}", shell_quote(rest)),
        _ => shell_quote(cwd),
    }
}

fn shell_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The command line for a program and its arguments. `exec` runs only programs, not shell builtins.
pub(super) fn shell_line(argv: &[String]) -> String {
    let words: Vec<_> = argv.iter().map(|word| shell::word(word)).collect();
    format!("exec {}", words.join(" "))
}

/// The last lines of the error output, to append to an error message.
fn stderr_text(output: &Captured) -> String {
    let text = output.excerpt(Stream::Stderr).text;
    let lines: Vec<_> =
        text.lines().map(|line| clean(line.as_bytes())).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n");
    if last.is_empty() { last } else { format!(":\n{}", cut(&last, 1_000)) }
}

async fn not_started_error(lease: &Lease, output: &Captured) -> RunError {
    if lease.is_lost(LOSS_DETECTION_TIME).await {
        return RunError::Gone;
    }
    RunError::For(refused_error(lease, &stderr_text(output)))
}

fn refused_error(lease: &Lease, stderr_text: &str) -> CallError {
    let target = lease.target();
    if stderr_text.contains("Session open refused") {
        return CallError::new(
            ErrorCode::Overloaded,
            format!("{target} accepts no more sessions on this connection"),
        )
        .hint("Nothing was run. Wait until other commands on it have ended.");
    }
    CallError::new(ErrorCode::ToolFailed, format!("{target} did not start a shell for the command{stderr_text}"))
        .hint("Nothing was run. Commands require a host with a POSIX sh that the user may run; copying files may still work.")
        .before_it_ran()
}

/// A connection that no longer carries data looks like a working one, so it is closed.
fn unresponsive_error(lease: &Lease) -> CallError {
    lease.end();
    CallError::new(ErrorCode::Unavailable, format!("{} did not answer in time", lease.target()))
        .hint("Nothing was run. Call again to use a new connection.")
        .before_it_ran()
}

fn missing_folder_error(program: &Program, output: &Captured) -> CallError {
    let cwd = program.cwd.as_deref().unwrap_or_default();
    CallError::new(
        ErrorCode::NotFound,
        format!("the folder {cwd:?} cannot be entered on the host{}", stderr_text(output)),
    )
    .hint("Nothing was run. Give a `cwd` that exists.")
    .before_it_ran()
}

fn lost_error(lease: &Lease, output: &Captured) -> CallError {
    let message = format!("the connection to {} was lost while the command ran", lease.target());
    let details =
        json!({ "stdout": output.excerpt(Stream::Stdout), "stderr": output.excerpt(Stream::Stderr) });
    CallError::new(ErrorCode::Interrupted, message)
        .hint("It may have completed, been interrupted, or still be running on the host: check before you repeat it. Its output so far is in the details.")
        .details(details)
}

#[cfg(test)]
mod tests;
