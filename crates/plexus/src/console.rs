//! Attaches to a command on another machine: prints its output unmodified, sends it input, and returns its exit code.
//!
//! Requests for output and input carry byte offsets, so a broken connection or a restart of the hub only costs time
//! and loses no data.

pub(crate) mod escape;
mod raw_mode;
mod stdin_reader;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::failure::{Exit, Failure, OutputClosed};
use crate::remote::{Remote, new_idempotency_key};

pub(crate) use raw_mode::{RawMode, window_size};
pub(crate) use stdin_reader::StdinReader;

const TERMINAL: &str = "terminal";
const CONSOLE: &str = "console";
/// How long a poll for output waits.
const POLL_TIMEOUT: Duration = Duration::from_secs(15);

/// A job on another machine.
pub(crate) struct Console {
    remote: Remote,
    job: String,
    /// Offset of the next input byte.
    input_offset: Mutex<u64>,
}

/// The exit code of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobEnd {
    pub(crate) code: u8,
    /// A message for the user.
    pub(crate) note: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StartResponse {
    job: String,
}

#[derive(Debug, Serialize)]
struct JobRequest<'a> {
    action: &'a str,
    job: &'a str,
    #[serde(flatten)]
    arguments: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct FollowResponse {
    state: JobState,
    stdout: OutputChunk,
    stderr: OutputChunk,
    over: bool,
    /// What the sandbox lets commands write; in the first responses of a terminal.
    sandbox: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct JobState {
    exit_code: Option<i32>,
    #[serde(default)]
    timed_out: bool,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OutputChunk {
    data: String,
    next: u64,
    skipped: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FeedResponse {
    taken: Option<u64>,
    closed: bool,
}

impl Console {
    /// Starts a command with arguments of the tool `terminal`.
    pub(crate) async fn start(remote: Remote, mut arguments: Map<String, Value>) -> anyhow::Result<Self> {
        arguments.insert("action".to_owned(), json!("start"));
        let key = new_idempotency_key();
        let started: StartResponse = remote.call(TERMINAL, &arguments, Some(&key)).await?;
        Ok(Self { remote, job: started.job, input_offset: Mutex::new(0) })
    }

    pub(crate) fn job(&self) -> &str {
        &self.job
    }

    /// Copies the job's output to standard output and standard error until the job has ended. If the job is a terminal
    /// in a sandbox, calls `on_sandbox` first with what commands can write.
    pub(crate) async fn follow(&self, on_sandbox: impl Fn(&str)) -> anyhow::Result<JobEnd> {
        let (mut stdout, mut stderr, mut has_begun) = (0, 0, false);
        loop {
            let wait = u64::try_from(POLL_TIMEOUT.as_millis()).unwrap_or_default();
            let response: FollowResponse = self
                .request("follow", json!({ "stdout": stdout, "stderr": stderr, "wait_ms": wait }))
                .await?;
            if let Some(sandbox) = response.sandbox.as_deref().filter(|_| !has_begun) {
                on_sandbox(sandbox);
            }
            has_begun = true;
            for (chunk, to_stderr) in [(&response.stdout, false), (&response.stderr, true)] {
                if chunk.skipped > 0 {
                    crate::output::warning(&format!(
                        "{} bytes of output were lost: the command wrote faster than the connection could transfer",
                        chunk.skipped
                    ));
                }
                let bytes = STANDARD.decode(&chunk.data).context("the output is not valid base64")?;
                print(&bytes, to_stderr)?;
            }
            (stdout, stderr) = (response.stdout.next, response.stderr.next);
            if response.over {
                return job_end(response.state);
            }
        }
    }

    /// Sends input to the job. False if the job no longer reads input.
    pub(crate) async fn feed(&self, bytes: &[u8], eof: bool) -> anyhow::Result<bool> {
        let mut offset = self.input_offset.lock().await;
        let mut rest = bytes;
        loop {
            let arguments = json!({ "at": *offset, "data": STANDARD.encode(rest), "eof": eof });
            let response: FeedResponse = self.request("feed", arguments).await?;
            let Some(taken) = response.taken.filter(|_| !response.closed) else { return Ok(false) };
            let new = usize::try_from(taken.saturating_sub(*offset)).unwrap_or(usize::MAX).min(rest.len());
            (*offset, rest) = (taken, &rest[new..]);
            if rest.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Sets the size of the job's terminal, in columns and rows.
    pub(crate) async fn resize(&self, (cols, rows): (u16, u16)) -> anyhow::Result<()> {
        let _: Value = self.request("resize", json!({ "cols": cols, "rows": rows })).await?;
        Ok(())
    }

    /// Sends a signal to the job. None terminates it, by force if necessary.
    pub(crate) async fn signal(&self, signal: Option<&str>) -> anyhow::Result<()> {
        let arguments = signal.map_or(json!({}), |signal| json!({ "signal": signal }));
        let key = new_idempotency_key();
        let _: Value = self.remote.call(TERMINAL, &self.job_request("kill", arguments), Some(&key)).await?;
        Ok(())
    }

    async fn request<T: serde::de::DeserializeOwned>(
        &self,
        action: &str,
        arguments: Value,
    ) -> anyhow::Result<T> {
        self.remote.call(CONSOLE, &self.job_request(action, arguments), None).await
    }

    fn job_request<'a>(&'a self, action: &'a str, arguments: Value) -> JobRequest<'a> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        JobRequest { action, job: &self.job, arguments }
    }
}

/// Prints unmodified bytes without buffering.
fn print(bytes: &[u8], to_stderr: bool) -> anyhow::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let written = match to_stderr {
        true => std::io::stderr().lock().write_all(bytes),
        false => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        }
    };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        written => written.context("cannot write the output"),
    }
}

fn job_end(state: JobState) -> anyhow::Result<JobEnd> {
    let note = state.note;
    if state.timed_out {
        let note = Some("the command timed out and was terminated".to_owned());
        return Ok(JobEnd { code: TIMED_OUT, note });
    }
    // The exit code after a signal is 128 + the signal's number.
    match state.exit_code {
        Some(code) => Ok(JobEnd { code: u8::try_from(code & 0xff).unwrap_or(1), note }),
        None => {
            let why = note.unwrap_or_else(|| "its end was not observed".to_owned());
            Err(Failure::new(Exit::Failed, format!("the exit code of the command is unknown: {why}")).into())
        }
    }
}

/// The exit code of `timeout`.
const TIMED_OUT: u8 = 124;
