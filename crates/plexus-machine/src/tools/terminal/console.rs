//! `console`: a job, followed by a person or a program elsewhere, byte by byte. It is for `plexus exec` and `plexus shell`
//! and in no list; jobs are started and ended with `terminal`, so wherever that is off, this is.
//!
//! Every action can be repeated. Output is read from a place on, and input is written at one: what the job was given before
//! is not given again. So nothing that is typed has to be kept on its way, and none of it is recorded; neither is what the
//! job shows.

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
/// Bytes of each output in one answer.
const PART: usize = 256 << 10;
/// How long an answer may be waited for.
const LONGEST: Duration = Duration::from_secs(20);
/// Between two looks at what a job has written: soon after it was asked for, so that an echo is not late, and later.
const SOON: Duration = Duration::from_millis(4);
const LATER: Duration = Duration::from_millis(25);
const IMPATIENT: Duration = Duration::from_millis(250);
/// How long a job may take to read what is written to it.
const WRITING: Duration = Duration::from_secs(5);
/// Bytes that are written at once.
const MOST: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Console {
    pub(super) machine: Machine,
    pub(super) jobs: Jobs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConsoleAction {
    /// What the job wrote from `stdout` and `stderr` on; waits for something new at most `wait_ms`.
    Follow,
    /// Writes `data` to its standard input, of which it is what comes after `at` bytes.
    Feed,
    /// The terminal of the job has `cols` and `rows` now.
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
    /// Id of a job, as `terminal` gives it.
    job: String,
    stdout: Option<u64>,
    stderr: Option<u64>,
    #[schemars(range(max = 20_000))]
    wait_ms: Option<u64>,
    at: Option<u64>,
    /// Base64.
    data: Option<String>,
    /// Ends the standard input after it.
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
    /// It has ended, and there is no more of either.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<bool>,
    /// Bytes of its input that it was given so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<u64>,
    /// It takes no input any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    closed: bool,
}

/// A part of an output.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Written {
    /// Base64.
    data: String,
    /// Where to read on.
    next: u64,
    /// Bytes before it that are not kept.
    skipped: u64,
}

/// Everything but the schemas.
pub(crate) fn spec() -> ToolSpec {
    let action = |action: ConsoleAction, access: Access| Action::new(action.name(), access);
    ToolSpec::node(
        NAME,
        "Console",
        "Follows a job of `terminal` and types at it. For programs: `plexus exec` and `plexus shell` use it.",
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
                .hint("Jobs are of one machine, and old ones are removed.")
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
        let wait = Duration::from_millis(args.wait_ms.unwrap_or(0)).min(LONGEST);
        let is_new =
            || job.spool(Stream::Stdout).size() > stdout || job.spool(Stream::Stderr).size() > stderr;
        let begun = Instant::now();
        while begun.elapsed() < wait && !is_new() && job.end().is_none() {
            let pause = if begun.elapsed() < IMPATIENT { SOON } else { LATER };
            let _ = tokio::time::timeout(pause, job.ended()).await;
        }
        // Asked first: what is read after its end is all there is.
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
            ..Output::default()
        })
    }
}

async fn written(job: &Job, stream: Stream, offset: u64) -> Result<Written, CallError> {
    let part = read::part(job.spool(stream), offset, PART).await.map_err(read::unreadable)?;
    Ok(Written {
        next: part.offset + part.bytes.len() as u64,
        skipped: part.skipped,
        data: STANDARD.encode(&part.bytes),
    })
}

async fn feed(job: &Job, args: &Args) -> Result<Output, CallError> {
    let at = args.at.ok_or_else(|| arguments::missing(NAME, "at", args.action.name()))?;
    let data = args.data.as_deref().unwrap_or_default();
    let Some(bytes) = STANDARD.decode(data).ok().filter(|bytes| bytes.len() <= MOST) else {
        return Err(wrong("/data", &format!("expected base64 of at most {MOST} bytes")));
    };
    let fed = job.feed(at, &bytes, args.eof.unwrap_or(false), WRITING).await;
    match fed {
        Ok(taken) => Ok(Output { taken: Some(taken), ..Output::default() }),
        Err(FeedError::Closed) => Ok(Output { closed: true, ..Output::default() }),
        Err(FeedError::Lost) => Err(CallError::new(
            ErrorCode::Conflict,
            format!(
                "job {} is of an earlier start of the node: nobody knows how much of its input it was given",
                job.id
            ),
        )
        .hint("Its output can be followed; it cannot be written to from here any more.")),
        Err(FeedError::Ahead(taken)) => Err(wrong("/at", &format!("the job was given {taken} bytes so far"))),
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
