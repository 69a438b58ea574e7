//! `console`: follows a job byte by byte for a person or a program elsewhere. It serves `plexus exec` and `plexus
//! shell` and is not listed. Jobs are started and ended with `terminal`, so a policy that disables `terminal`
//! disables this tool too.
//!
//! Every action can be repeated: output is read from an offset, and input is written at an offset, so bytes the job
//! has already received are not written again. Typed input therefore need not be stored on its way. Neither the input
//! nor the output of the job is recorded.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_proto::ErrorCode;
use plexus_tools::{
    Access, Action, CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool, arguments,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::jobs::{FeedError, Job, Jobs, Screen};
use super::report::JobState;
use super::{read, refusals};
use crate::Machine;
use crate::tools::output::Stream;

pub(crate) const NAME: &str = "console";
/// The maximum number of bytes of each stream in one answer.
const READ_BYTES: usize = 256 << 10;
/// The maximum time to wait for output.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Poll intervals for new output: short right after the request, so that an echo is not delayed, and longer later.
const FIRST_POLL: Duration = Duration::from_millis(4);
const POLL_INTERVAL: Duration = Duration::from_millis(25);
const MIN_WAIT: Duration = Duration::from_millis(250);
/// How long a job may take to read its input.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of bytes written at once.
const MAX_INPUT: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Console {
    pub(super) machine: Machine,
    pub(super) jobs: Jobs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConsoleAction {
    /// Returns the output from the offsets `stdout` and `stderr`; waits for new output for at most `wait_ms`.
    Follow,
    /// Writes `data` to the standard input, as the bytes that follow offset `at`.
    Feed,
    /// Sets the terminal size of the job to `cols` and `rows`.
    Resize,
}

impl ConsoleAction {
    fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Feed => "feed",
            Self::Resize => "resize",
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    action: ConsoleAction,
    /// Id of a job, as returned by `terminal`.
    job: String,
    stdout: Option<u64>,
    stderr: Option<u64>,
    #[schemars(range(max = 20_000))]
    wait_ms: Option<u64>,
    at: Option<u64>,
    /// Base64.
    data: Option<String>,
    /// Close the standard input afterwards.
    eof: Option<bool>,
    #[schemars(range(min = 1, max = 1000))]
    cols: Option<u16>,
    #[schemars(range(min = 1, max = 1000))]
    rows: Option<u16>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<Written>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<Written>,
    /// The job has ended, and both streams are at their end.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<bool>,
    /// At the beginning of a terminal: what the sandbox lets its commands write.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// Number of input bytes the job has received so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<u64>,
    /// The job no longer accepts input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    closed: bool,
}

/// A part of an output stream.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Written {
    /// Base64.
    data: String,
    /// The offset at which to continue.
    next: u64,
    /// Bytes before this part that are no longer stored.
    skipped: u64,
}

/// The tool's specification without its schemas.
pub(crate) fn spec() -> ToolSpec {
    let action = |action: ConsoleAction, access: Access| Action::new(action.name(), access);
    ToolSpec::node(
        NAME,
        "Console",
        "Follows a job of `terminal` and writes to its input. For programs: `plexus exec` and `plexus shell` use it.",
        Access::READ,
    )
    .with_actions(vec![
        action(ConsoleAction::Follow, Access::READ),
        action(ConsoleAction::Feed, Access::SET.repeated()),
        action(ConsoleAction::Resize, Access::SET.repeated()),
    ])
    .for_programs()
    .without_record_of(&["data"])
}

impl TypedTool for Console {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let job = self.jobs.get(&args.job).ok_or_else(|| {
            CallError::new(ErrorCode::NotFound, "there is no such job on this machine")
                .hint("A job exists on one machine only, and old jobs are removed.")
        })?;
        let output = match args.action {
            ConsoleAction::Follow => self.follow(&context, &job, &args).await?,
            ConsoleAction::Feed => feed(&job, &args).await?,
            ConsoleAction::Resize => resize(&job, &args).await?,
        };
        Ok(Outcome::Ready(ToolOutput::new("", &output)))
    }
}

impl Console {
    async fn follow(&self, context: &ToolContext, job: &Job, args: &Args) -> Result<Output, CallError> {
        let (stdout, stderr) = (args.stdout.unwrap_or(0), args.stderr.unwrap_or(0));
        let wait = Duration::from_millis(args.wait_ms.unwrap_or(0)).min(MAX_TIME);
        let is_new =
            || job.spool(Stream::Stdout).size() > stdout || job.spool(Stream::Stderr).size() > stderr;
        let begun = Instant::now();
        while begun.elapsed() < wait && !is_new() && job.end().is_none() {
            let pause = if begun.elapsed() < MIN_WAIT { FIRST_POLL } else { POLL_INTERVAL };
            let _ = tokio::time::timeout(pause, job.ended()).await;
        }
        // Read the state first: output read after the end is complete.
        let mut state = read::state(job, context.clock.now());
        let out = written(job, Stream::Stdout, stdout).await?;
        let err = written(job, Stream::Stderr, stderr).await?;
        let all = |part: &Written, stream| part.next >= job.spool(stream).size();
        let over = !state.running && all(&out, Stream::Stdout) && all(&err, Stream::Stderr);
        if over && state.note.is_none() {
            state.note = refusals::note_of(&self.machine, job).await?;
        }
        Ok(Output {
            state: Some(state),
            stdout: Some(out),
            stderr: Some(err),
            over: Some(over),
            sandbox: if job.record.pty && stdout == 0 { refusals::announcement(&self.machine) } else { None },
            ..Output::default()
        })
    }
}

async fn written(job: &Job, stream: Stream, offset: u64) -> Result<Written, CallError> {
    let part = read::part(job.spool(stream), offset, READ_BYTES).await.map_err(read::unreadable)?;
    Ok(Written {
        next: part.offset + part.bytes.len() as u64,
        skipped: part.skipped,
        data: STANDARD.encode(&part.bytes),
    })
}

async fn feed(job: &Job, args: &Args) -> Result<Output, CallError> {
    let at = args.at.ok_or_else(|| arguments::missing(NAME, "at", args.action.name()))?;
    let data = args.data.as_deref().unwrap_or_default();
    let Some(bytes) = STANDARD.decode(data).ok().filter(|bytes| bytes.len() <= MAX_INPUT) else {
        return Err(wrong("/data", &format!("expected base64 of at most {MAX_INPUT} bytes")));
    };
    let fed = job.feed(at, &bytes, args.eof.unwrap_or(false), WRITE_TIMEOUT).await;
    match fed {
        Ok(taken) => Ok(Output { taken: Some(taken), ..Output::default() }),
        Err(FeedError::Closed) => Ok(Output { closed: true, ..Output::default() }),
        Err(FeedError::Lost) => Err(CallError::new(
            ErrorCode::Conflict,
            format!(
                "job {} was started before the node restarted: it is unknown how much of its input it has received",
                job.id
            ),
        )
        .hint("Its output can still be followed, but no input can be written to it.")),
        Err(FeedError::Ahead(taken)) => Err(wrong("/at", &format!("the job has received {taken} bytes so far"))),
    }
}

async fn resize(job: &Job, args: &Args) -> Result<Output, CallError> {
    let cols = args.cols.ok_or_else(|| arguments::missing(NAME, "cols", args.action.name()))?;
    let rows = args.rows.ok_or_else(|| arguments::missing(NAME, "rows", args.action.name()))?;
    match job.resize(Screen { cols, rows }).await {
        true => Ok(Output::default()),
        false => Ok(Output { closed: true, ..Output::default() }),
    }
}

fn wrong(path: &str, message: &str) -> CallError {
    arguments::invalid(NAME, vec![serde_json::json!({ "path": path, "message": message })])
}
