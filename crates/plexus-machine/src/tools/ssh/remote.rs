//! A command on a host.
//!
//! What ssh is told to run is always the same line, which any login shell understands: it starts a `sh` that says its number
//! and waits to be told what to do. What the caller wants goes over its standard input. So no text of a caller is ever on a
//! command line, here or there; nothing has run until the `sh` has spoken; and from then on its process group is known, and
//! can be ended. It tells the end of the command itself, because ssh says 255 for a lost connection and for a command that
//! ended so, and waits for everything that a command has left behind.

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
use super::marks::{Ended, Marks};
use super::master::unusable;
use super::pool::{Lease, Pool};
use crate::tools::output::Captured;

/// Nothing in it means anything to csh or fish that it does not mean to sh.
const OPENING: &str = r#"exec sh -c 'echo "plexus-ready $$" >&2; IFS= read -r p && eval "$p"'"#;
/// For the host to start a shell.
const READY: Duration = Duration::from_secs(30);
/// After its end, for what is under way: more is waited for as long as something comes.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// To end a command on a host: it is asked, and killed two seconds later.
const ENDING: Duration = Duration::from_secs(6);
/// For a connection that broke to be noticed as such: who used it may be told before who kept it has ended.
pub(super) const NOTICING: Duration = Duration::from_secs(2);
const BLOCK: usize = 32 << 10;

/// Bytes that are kept of the beginning of an output, and as many of its end.
const STDOUT_SHOWN: usize = 24 << 10;
const STDERR_SHOWN: usize = 8 << 10;

/// What is to be run.
#[derive(Debug)]
pub(super) struct Program {
    /// For `sh -c`.
    pub(super) line: String,
    pub(super) cwd: Option<String>,
    pub(super) stdin: String,
}

/// Why there is nothing to tell of how it went.
#[derive(Debug)]
pub(super) enum NotRun {
    /// The connection was gone before the command was told to anybody: another one will do.
    Gone,
    For(CallError),
}

impl From<CallError> for NotRun {
    fn from(error: CallError) -> Self {
        Self::For(error)
    }
}

/// How it went.
#[derive(Debug)]
pub(super) struct Ran {
    /// None where it was killed before it could tell.
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
            ran.exit_code = marks.ended().and_then(Ended::code);
            return Ok(ran);
        }
        End::Left => ran.left_running = true,
        End::Closed => {}
    }
    leash.number = None;
    match marks.ended() {
        Some(Ended::Code(code)) => ran.exit_code = Some(code),
        Some(Ended::NoFolder) => return Err(no_folder(program, ran).into()),
        None if lease.is_gone(NOTICING).await => return Err(lost(&lease, ran).into()),
        // The `sh` that was to tell was killed on the host, with the command.
        None => {}
    }
    Ok(ran)
}

/// ssh that uses a connection. Dropped, it is killed.
struct Process {
    _group: Group,
    child: Child,
    stdin: Option<tokio::process::ChildStdin>,
    stdout: Option<tokio::process::ChildStdout>,
    stderr: Option<tokio::process::ChildStderr>,
}

/// Why nothing more is waited for.
enum End {
    /// Both outputs have ended.
    Closed,
    /// The command has ended, and something that it left behind holds an output.
    Left,
    TimedOut,
}

impl Process {
    fn of(mut child: Child) -> Result<Self, CallError> {
        let pid = child.id().ok_or_else(|| CallError::new(ErrorCode::Internal, "ssh has no number"))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Self { _group: Group::of(pid), child, stdin, stdout, stderr })
    }

    /// The number of the `sh`; none where the host did not start one.
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
                // One that does not read all of it closes the pipe, as it may.
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

    /// What there still is of one that was ended.
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

/// Bytes that were read; at the end, or where there is none to read from, it is closed.
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

/// Ends a command that nobody waits for any more: whoever cancels a call drops what carries it out.
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
        supervisor.spawn(Stage::Work, "end of a command on a host", async move {
            end_on_host(&pool, &lease, number).await
        });
    }
}

/// Asks the process group to end, and kills it. A server makes what it starts the leader of one.
async fn end_on_host(pool: &Pool, lease: &Lease, number: u32) {
    let line = format!(
        "exec sh -c 'exec 2>/dev/null; n={number}; kill -s TERM -- -$n || kill -s TERM $n; for i in 1 2 3 4 5 6 7 8 9 10; \
         do kill -s 0 -- -$n || exit 0; sleep 0.2; done; kill -s KILL -- -$n || kill -s KILL $n'"
    );
    let mut ssh = pool.client().running(lease.target(), lease.socket(), &line);
    // Dropped when it takes too long, it is killed.
    if tokio::time::timeout(ENDING, ssh.output()).await.is_err() {
        tracing::warn!(host = %lease.target().host, "a command on a host may not have ended");
    }
}

/// What the `sh` is told: one line, in which every byte that could mean something is written as a number.
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

/// Of the host: `~` is the home folder there.
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

/// The line for a program and its arguments. `exec` finds programs only, and nothing that is part of a shell.
pub(super) fn line_of(argv: &[String]) -> String {
    let words: Vec<_> = argv.iter().map(|word| shell::word(word)).collect();
    format!("exec {}", words.join(" "))
}

/// The end of what was written, as it stands behind an error.
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
            format!("{target} takes no more sessions on this connection"),
        )
        .hint("Nothing was run. Wait until what runs there has ended.");
    }
    CallError::new(ErrorCode::ToolFailed, format!("{target} did not start a shell for the command{said}"))
        .hint("Nothing was run. Commands need a host with a POSIX sh and a user who may use it; files may still be copied.")
        .before_it_ran()
}

/// A connection that carries nothing any more looks like one that does: it is not used again.
fn silent(lease: &Lease) -> CallError {
    lease.end();
    CallError::new(ErrorCode::Unavailable, format!("{} did not answer in time", lease.target()))
        .hint("Nothing was run. Call again: another connection is made.")
        .before_it_ran()
}

fn no_folder(program: &Program, ran: Ran) -> CallError {
    let cwd = program.cwd.as_deref().unwrap_or_default();
    CallError::new(
        ErrorCode::NotFound,
        format!("the folder {cwd:?} cannot be entered on the host{}", said(ran.stderr)),
    )
    .hint("Nothing was run. Give a `cwd` that is there.")
    .before_it_ran()
}

fn lost(lease: &Lease, ran: Ran) -> CallError {
    let message = format!("the connection to {} was lost while the command ran", lease.target());
    let details = json!({ "stdout": ran.stdout.excerpt(), "stderr": ran.stderr.excerpt() });
    CallError::new(ErrorCode::Interrupted, message)
        .hint("It may have done its work, a part of it, or still run there. Look first. What it wrote until then is in the details.")
        .details(details)
}

#[cfg(test)]
mod tests;
