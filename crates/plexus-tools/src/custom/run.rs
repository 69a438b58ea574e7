//! One run of a program: with a minimal environment and the arguments on its standard input, and ended with all its
//! child processes.
//!
//! The program leads its own process group, which is killed when the program ends, exceeds its time or output limit, or
//! is cancelled, because the end of a run always drops its [`Group`]. A [`Guardian`] does the same if the hub itself is
//! killed.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plexus_kit::foreign_text::{Withheld, clean};
use plexus_kit::process::{Group, Guardian, Signal};
use plexus_kit::{Environment, ExposeSecret as _};
use plexus_proto::ErrorCode;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::definition::Definition;
use super::ownership;
use crate::{CallError, redact};

/// How much of the end of standard error is retained, in bytes.
const MAX_STDERR_BYTES: usize = 16 << 10;
/// The maximum number of shown lines.
const MAX_STDERR_LINES: usize = 50;
/// Bytes of it in the text of an error.
const MAX_STDERR_SHOWN: usize = 2 << 10;
/// How long to read the pipes of a process after it has ended.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
const BLOCK_SIZE: usize = 8 << 10;

/// The outcome of a program, besides its result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProgramRun {
    pub(super) started: bool,
    /// Its exit status; none if it was not started or was killed.
    pub(super) exit: Option<String>,
    pub(super) exit_code: Option<i32>,
    /// The last lines of its standard error.
    pub(super) stderr: Vec<String>,
    pub(super) elapsed: Duration,
}

/// Runs the program of a tool with these arguments and returns its standard output.
pub(super) async fn run(
    definition: &Definition,
    environment: &Environment,
    arguments: &Value,
    cancel: &CancellationToken,
) -> (ProgramRun, Result<Vec<u8>, CallError>) {
    let began = Instant::now();
    let mut ran = ProgramRun::default();
    let result = match start(definition, environment) {
        Ok(child) => {
            ran.started = true;
            run_to_end(child, definition, arguments, cancel, &mut ran).await
        }
        Err(error) => Err(error.before_it_ran()),
    };
    ran.elapsed = began.elapsed();
    (ran, result)
}

fn start(definition: &Definition, environment: &Environment) -> Result<Child, CallError> {
    let name = &definition.name;
    // The ownership may have changed since the manifest was loaded.
    for path in [&definition.folder, &definition.file] {
        ownership::check_ownership(path).map_err(|problem| not_run_error(name, problem))?;
    }
    ownership::check_program(&definition.program).map_err(|problem| not_run_error(name, problem))?;
    Command::new(&definition.program)
        .args(&definition.args)
        .env_clear()
        .envs(environment.inherited())
        .envs(definition.env.iter().map(|(name, value)| (name, value.expose_secret())))
        .current_dir(&definition.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            let message = format!("{name} cannot be started: {error}");
            CallError::new(ErrorCode::ToolFailed, message)
                .hint("Nothing was run. If it is a script, its first line must name an existing interpreter.")
        })
}

fn not_run_error(name: &str, (reason, fix): ownership::OwnershipProblem) -> CallError {
    CallError::new(ErrorCode::ToolFailed, format!("{name} is not run: it {reason}"))
        .hint(format!("Nothing was run. An admin can {fix}."))
}

async fn run_to_end(
    mut child: Child,
    definition: &Definition,
    arguments: &Value,
    cancel: &CancellationToken,
    ran: &mut ProgramRun,
) -> Result<Vec<u8>, CallError> {
    let name = &definition.name;
    let (Some(pid), Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.id(), child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(CallError::new(ErrorCode::Internal, format!("{name} has no standard streams")));
    };
    // Declared before the child, so the group is killed while its leader still holds the process id.
    let group = Group::of(pid);
    let guardian = Guardian::of(pid);
    let (output, stderr_bytes) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let too_much = CancellationToken::new();
    let write_arguments = async move {
        // A program that does not read its arguments may close the pipe.
        let _ = stdin.write_all(format!("{arguments}\n").as_bytes()).await;
    };
    let read_stdout = async {
        let limit = definition.output_bytes;
        read(stdout, |block| {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.extend_from_slice(block);
            output.len() <= limit
        })
        .await
        .unwrap_or_else(|OutputTooLong| too_much.cancel());
    };
    let read_stderr = async {
        let _ = read(stderr, |block| {
            let mut end = stderr_bytes.lock().unwrap_or_else(PoisonError::into_inner);
            end.extend_from_slice(block);
            let older = end.len().saturating_sub(MAX_STDERR_BYTES);
            end.drain(..older);
            true
        })
        .await;
    };
    let ended = {
        let streams = async { tokio::join!(write_arguments, read_stdout, read_stderr) };
        tokio::pin!(streams);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(CallError::new(ErrorCode::Cancelled, "the call was cancelled")),
            () = too_much.cancelled() => {
                let message = format!("{name} wrote more than {} bytes and was killed", definition.output_bytes);
                Err(CallError::new(ErrorCode::TooLarge, message).hint("Ask it for less, or raise its `output_bytes`."))
            }
            () = tokio::time::sleep(definition.timeout) => {
                let message = format!("{name} did not finish within {:?} and was killed", definition.timeout);
                Err(CallError::new(ErrorCode::DeadlineExceeded, message)
                    .hint("It may have taken partial effect. Check before calling again."))
            }
            status = wait_for_end(&mut child, &group, streams) => Ok(status),
        }
    };
    drop(group);
    if let Some(guardian) = guardian {
        guardian.dismiss().await;
    }
    let stderr_bytes = stderr_bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
    ran.stderr = lines(&stderr_bytes, &Withheld::of(&definition.env));
    let status = match ended {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            return Err(CallError::new(ErrorCode::ToolFailed, format!("{name} was lost: {error}")));
        }
        Err(error) => return Err(with_stderr(error, ran)),
    };
    ran.exit = Some(status.to_string());
    ran.exit_code = status.code();
    if !status.success() {
        return Err(with_stderr(
            CallError::new(ErrorCode::ToolFailed, format!("{name} failed ({status})")),
            ran,
        ));
    }
    let output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    if output.len() > definition.output_bytes {
        let message = format!("{name} wrote more than {} bytes", definition.output_bytes);
        return Err(CallError::new(ErrorCode::TooLarge, message));
    }
    Ok(output)
}

/// Waits until a process has ended and its streams were read. Its remaining child processes are killed.
async fn wait_for_end<T>(
    child: &mut Child,
    group: &Group,
    mut streams: std::pin::Pin<&mut impl Future<Output = T>>,
) -> io::Result<ExitStatus> {
    let (status, read) = tokio::select! {
        status = child.wait() => (status, false),
        _ = &mut streams => (child.wait().await, true),
    };
    group.signal(Signal::KILL);
    if !read {
        // A process that left the group may hold the other end.
        let _ = tokio::time::timeout(PIPE_DRAIN_TIMEOUT, streams).await;
    }
    status
}

/// The limit was exceeded.
struct OutputTooLong;

/// Passes on the data read, until the consumer stops.
async fn read(
    mut from: impl AsyncRead + Unpin,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), OutputTooLong> {
    let mut block = vec![0; BLOCK_SIZE];
    while let Ok(read @ 1..) = from.read(&mut block).await {
        if !take(&block[..read]) {
            return Err(OutputTooLong);
        }
    }
    Ok(())
}

/// The last lines of standard error, without the secrets passed to the program.
fn lines(bytes: &[u8], withheld: &Withheld) -> Vec<String> {
    let cleaned: Vec<String> =
        bytes.split(|byte| *byte == b'\n').map(|line| withheld.redact(clean(line))).collect();
    let text = cleaned.join("\n");
    let text = redact::text(&text).unwrap_or(text);
    let mut lines: Vec<String> = text.trim_end().lines().map(str::to_owned).collect();
    lines.drain(..lines.len().saturating_sub(MAX_STDERR_LINES));
    lines
}

/// Adds the standard error output to an error.
fn with_stderr(mut error: CallError, ran: &ProgramRun) -> CallError {
    let details = json!({ "exit_code": ran.exit_code, "stderr": ran.stderr });
    if ran.stderr.is_empty() {
        return error.details(details);
    }
    error.message.push_str(&quoted(&ran.stderr));
    error.details(details)
}

/// The end of standard error, formatted as the tail of an error.
pub(super) fn quoted(stderr: &[String]) -> String {
    let text = stderr.join("\n");
    format!(":\n{}", &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_STDERR_SHOWN))..])
}
