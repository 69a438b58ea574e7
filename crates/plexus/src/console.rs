//! A command on another machine, followed from here: what it writes comes byte by byte, what is typed here goes there, and
//! its exit code is ours.
//!
//! Output is asked for from a place on and input is sent with its place, so a link that is cut or a hub that restarts costs
//! time and nothing else.

pub(crate) mod escape;
mod keys;
mod raw;
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
use crate::remote::{Remote, fresh_key};

pub(crate) use keys::Keys;
pub(crate) use raw::{Raw, window};

const TERMINAL: &str = "terminal";
const CONSOLE: &str = "console";
/// How long one question for more output is left open.
const WAIT: Duration = Duration::from_secs(15);

/// A job on another machine.
pub(crate) struct Console {
    remote: Remote,
    job: String,
    /// Bytes of input that it was given.
    fed: Mutex<u64>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: u8,
    /// What a person should know of it.
    pub(crate) note: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Started {
    job: String,
}

#[derive(Debug, Serialize)]
struct Asked<'a> {
    action: &'a str,
    job: &'a str,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Followed {
    state: State,
    stdout: Written,
    stderr: Written,
    over: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct State {
    exit_code: Option<i32>,
    #[serde(default)]
    timed_out: bool,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Written {
    data: String,
    next: u64,
    skipped: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fed {
    taken: Option<u64>,
    closed: bool,
}

impl Console {
    /// Starts a command; `arguments` are those of the tool `terminal`.
    pub(crate) async fn start(remote: Remote, mut arguments: Map<String, Value>) -> anyhow::Result<Self> {
        arguments.insert("action".to_owned(), json!("start"));
        let key = fresh_key();
        let started: Started = remote.call(TERMINAL, &arguments, Some(&key)).await?;
        Ok(Self { remote, job: started.job, fed: Mutex::new(0) })
    }

    pub(crate) fn job(&self) -> &str {
        &self.job
    }

    /// Writes what the job writes to our own outputs, until it has ended.
    pub(crate) async fn follow(&self) -> anyhow::Result<Ended> {
        let (mut stdout, mut stderr) = (0, 0);
        loop {
            let wait = u64::try_from(WAIT.as_millis()).unwrap_or_default();
            let told: Followed =
                self.ask("follow", json!({ "stdout": stdout, "stderr": stderr, "wait_ms": wait })).await?;
            for (part, to_stderr) in [(&told.stdout, false), (&told.stderr, true)] {
                if part.skipped > 0 {
                    crate::output::warning(&format!(
                        "{} bytes of its output are lost: it wrote faster than they could be carried",
                        part.skipped
                    ));
                }
                let bytes = STANDARD.decode(&part.data).context("output that is no base64")?;
                show(&bytes, to_stderr)?;
            }
            (stdout, stderr) = (told.stdout.next, told.stderr.next);
            if told.over {
                return ended(told.state);
            }
        }
    }

    /// Gives the job this as the next of its input; false: it takes none any more.
    pub(crate) async fn feed(&self, bytes: &[u8], eof: bool) -> anyhow::Result<bool> {
        let mut fed = self.fed.lock().await;
        let mut rest = bytes;
        loop {
            let asked = json!({ "at": *fed, "data": STANDARD.encode(rest), "eof": eof });
            let told: Fed = self.ask("feed", asked).await?;
            let Some(taken) = told.taken.filter(|_| !told.closed) else { return Ok(false) };
            let new = usize::try_from(taken.saturating_sub(*fed)).unwrap_or(usize::MAX).min(rest.len());
            (*fed, rest) = (taken, &rest[new..]);
            if rest.is_empty() {
                return Ok(true);
            }
        }
    }

    /// The window has this size now, in columns and rows.
    pub(crate) async fn resize(&self, (cols, rows): (u16, u16)) -> anyhow::Result<()> {
        let _: Value = self.ask("resize", json!({ "cols": cols, "rows": rows })).await?;
        Ok(())
    }

    /// Sends a signal to the job; none: it is to end, by force if need be.
    pub(crate) async fn signal(&self, signal: Option<&str>) -> anyhow::Result<()> {
        let more = signal.map_or(json!({}), |signal| json!({ "signal": signal }));
        let key = fresh_key();
        let _: Value = self.remote.call(TERMINAL, &self.asked("kill", more), Some(&key)).await?;
        Ok(())
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, action: &str, more: Value) -> anyhow::Result<T> {
        self.remote.call(CONSOLE, &self.asked(action, more), None).await
    }

    fn asked<'a>(&'a self, action: &'a str, more: Value) -> Asked<'a> {
        let more = match more {
            Value::Object(more) => more,
            _ => Map::new(),
        };
        Asked { action, job: &self.job, more }
    }
}

/// As it is, at once.
fn show(bytes: &[u8], to_stderr: bool) -> anyhow::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let shown = match to_stderr {
        true => std::io::stderr().lock().write_all(bytes),
        false => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        }
    };
    match shown {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        shown => shown.context("cannot write the output"),
    }
}

fn ended(state: State) -> anyhow::Result<Ended> {
    let note = state.note;
    if state.timed_out {
        let note = Some("it was ended because its time was up".to_owned());
        return Ok(Ended { code: TIMED_OUT, note });
    }
    // Of one that was ended by a signal, it is 128 and the number of that.
    match state.exit_code {
        Some(code) => Ok(Ended { code: u8::try_from(code & 0xff).unwrap_or(1), note }),
        None => {
            let why = note.unwrap_or_else(|| "nobody saw how it ended".to_owned());
            Err(Failure::new(Exit::Failed, format!("the end of the command is not known: {why}")).into())
        }
    }
}

/// What `timeout` ends with.
const TIMED_OUT: u8 = 124;
