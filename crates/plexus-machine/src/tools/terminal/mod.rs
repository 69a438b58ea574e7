//! `terminal`: runs commands on this machine.
//!
//! Every command is a job: a folder with its record, output and exit status. A job belongs to the machine and not to
//! the call that started it, so any caller that may use the terminal can read its output later.

mod args;
mod commands;
pub(crate) mod console;
pub(super) mod jobs;
mod read;
mod refusals;
mod report;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_proto::api::ToolAnnotations;
use plexus_tools::{
    Access, Action, CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool, arguments,
};
use serde_json::json;

use super::COMMAND;
use super::output::{Live, Stream};
use crate::Machine;
use args::{ALIASES, Args, DEFAULT_TIME, MAX_PAGE, MAX_TIME, PAGE, TerminalAction};
use commands::wrong;
use console::Console;
use jobs::{Job, Jobs, Limits, StartError, StopReason};
use report::Output;

pub(crate) const NAME: &str = "terminal";
/// The time to stop a command after its timeout and to answer.
const GRACE: Duration = Duration::from_secs(15);
/// The number of bytes shown of the beginning of an output, and as many of its end.
const STDOUT_SHOWN: usize = 24 << 10;
const STDERR_SHOWN: usize = 8 << 10;
/// How long a job may take to read its input.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a killed job may take to end.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How long to wait for the effect of a signal.
const EXIT_NOTICE_TIME: Duration = Duration::from_millis(300);

/// The number of jobs in a list, in addition to running ones.
const LISTED: usize = 30;

#[derive(Debug)]
pub(super) struct Terminal {
    machine: Machine,
    jobs: Jobs,
}

/// The tool's specification without its schemas.
pub(super) fn spec() -> ToolSpec {
    let ended =
        Access { annotations: ToolAnnotations { idempotent_hint: true, ..COMMAND.annotations }, ..COMMAND };
    let action = |action: TerminalAction, access| Action::new(action.name(), access);
    let spec = ToolSpec::node(
        NAME,
        "Terminal",
        "Runs commands on a machine. `run` waits for the end and returns exit code, stdout and stderr; `start` \
         returns at once, for servers and long work: follow up with `read`, `write`, `wait`, `kill`. Long output \
         shows its beginning and end; get the rest with action `read` and the returned `job`. No state carries over \
         between commands: give `cwd` and `env` each time. A command starts in the working folder of the machine, \
         where new files belong; it cannot create files directly in the home folder.",
        Access::READ,
    );
    let actions = vec![
        action(TerminalAction::Run, COMMAND),
        action(TerminalAction::Start, COMMAND),
        action(TerminalAction::Read, Access::READ),
        action(TerminalAction::Write, COMMAND),
        action(TerminalAction::Wait, Access::READ),
        action(TerminalAction::Kill, ended),
        action(TerminalAction::List, Access::READ),
    ];
    let spec = spec.with_actions(actions).with_time("timeout_seconds", MAX_TIME, GRACE).with_aliases(ALIASES);
    ToolSpec { deadline: DEFAULT_TIME + GRACE, ..spec }
}

impl TypedTool for Terminal {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let output = match args.action {
            TerminalAction::Run => self.run_to_end(&context, args).await,
            TerminalAction::Start => self.start(&context, args),
            TerminalAction::Read => self.read(&args).await,
            TerminalAction::Write => self.write(&context, &args).await,
            TerminalAction::Wait => self.wait(&context, &args).await,
            TerminalAction::Kill => self.kill(&context, &args).await,
            TerminalAction::List => Ok(self.list(&context)),
        }?;
        Ok(Outcome::Ready(ToolOutput::new(output.text(), &output)))
    }
}

impl Terminal {
    pub(super) fn open(machine: &Machine) -> io::Result<Self> {
        Ok(Self { machine: machine.clone(), jobs: Jobs::open(machine, Limits::default())? })
    }

    /// The console, which shares these jobs.
    pub(super) fn console(&self) -> Console {
        Console { machine: self.machine.clone(), jobs: self.jobs.clone() }
    }

    async fn run_to_end(&self, context: &ToolContext, mut args: Args) -> Result<Output, CallError> {
        let request = commands::request(&self.machine, context, &mut args)?;
        let guard = CallJobGuard(self.jobs.start(request).map_err(not_started)?);
        follow(Live::from_start(context, &guard.0), context, &guard.0).await;
        self.answer(context, &guard.0).await
    }

    fn start(&self, context: &ToolContext, mut args: Args) -> Result<Output, CallError> {
        let request = commands::request(&self.machine, context, &mut args)?;
        let job = self.jobs.start(request).map_err(not_started)?;
        Ok(Output { state: Some(read::state(&job, context.clock.now())), ..Output::default() })
    }

    async fn read(&self, args: &Args) -> Result<Output, CallError> {
        let job = self.job(args)?;
        let limit = args.limit.unwrap_or(PAGE).min(MAX_PAGE) as usize;
        let stream = args.stream.unwrap_or(Stream::Stdout);
        let page = read::page(&job, stream, args.offset.unwrap_or(0), limit).await?;
        let state = read::state(&job, self.machine.clock.now());
        Ok(Output { state: Some(state), page: Some(page), ..Output::default() })
    }

    async fn wait(&self, context: &ToolContext, args: &Args) -> Result<Output, CallError> {
        let job = self.job(args)?;
        let limit = args.timeout_seconds.map_or(DEFAULT_TIME, Duration::from_secs).min(MAX_TIME);
        if job.end().is_none() {
            let live = follow(Live::from_now(context, &job), context, &job);
            // A job that has not ended continues; the answer reports it as running.
            let _ = tokio::time::timeout(limit, live).await;
        }
        self.answer(context, &job).await
    }

    async fn write(&self, context: &ToolContext, args: &Args) -> Result<Output, CallError> {
        let job = self.job(args)?;
        let eof = args.eof.unwrap_or(false);
        if args.text.is_none() && !eof {
            return Err(arguments::missing(NAME, "text", args.action.name()));
        }
        if job.end().is_some() {
            return Err(refused(format!("job {} has ended", job.id))
                .hint("Nothing was written. Action \"read\" shows what it wrote."));
        }
        if !job.takes_input() {
            return Err(refused(format!("the standard input of job {} was set when it was started", job.id))
                .hint("Nothing was written. Use action \"start\" without `stdin` for a command that reads from `write`."));
        }
        let no_reader = |_: io::Error| {
            refused(format!("job {} does not read its standard input", job.id)).hint(
                "The job has closed it, or it was closed with `eof`. Action \"read\" shows what it wrote.",
            )
        };
        let text = args.text.as_deref().unwrap_or_default();
        let written = match text {
            "" => 0,
            text => job.write(text, WRITE_TIMEOUT).await.map_err(no_reader)?,
        };
        if eof && written == text.len() {
            job.close(WRITE_TIMEOUT).await.map_err(no_reader)?;
        }
        let state = read::state(&job, context.clock.now());
        Ok(Output { state: Some(state), written: Some(written), ..Output::default() })
    }

    async fn kill(&self, context: &ToolContext, args: &Args) -> Result<Output, CallError> {
        let job = self.job(args)?;
        let patience = match &args.signal {
            None if job.end().is_none() => {
                job.stop(StopReason::Killed);
                KILL_WAIT
            }
            // For an ended job, signal the processes it left running.
            given => {
                let name = given.as_deref().unwrap_or("TERM");
                let signal = jobs::signal_to_send(name).ok_or_else(|| {
                    wrong(
                        "signal",
                        "expected one of HUP, INT, QUIT, KILL, USR1, USR2, TERM, STOP, CONT, WINCH",
                    )
                })?;
                job.signal(signal).await;
                EXIT_NOTICE_TIME
            }
        };
        let _ = tokio::time::timeout(patience, job.ended()).await;
        Ok(Output { state: Some(read::state(&job, context.clock.now())), ..Output::default() })
    }

    fn list(&self, context: &ToolContext) -> Output {
        let now = context.clock.now();
        let all = self.jobs.all();
        let mut remaining_rows = LISTED;
        let shown = all.iter().filter(|job| {
            let has_room = remaining_rows > 0;
            remaining_rows = remaining_rows.saturating_sub(1);
            has_room || job.end().is_none()
        });
        let jobs: Vec<_> = shown.map(|job| read::listed(job, now)).collect();
        let not_shown = Some(all.len() - jobs.len()).filter(|count| *count > 0);
        Output { jobs: Some(jobs), not_shown, ..Output::default() }
    }

    fn job(&self, args: &Args) -> Result<Arc<Job>, CallError> {
        let id = args.job.as_deref().ok_or_else(|| arguments::missing(NAME, "job", args.action.name()))?;
        self.jobs.get(id).ok_or_else(|| {
            CallError::new(ErrorCode::NotFound, "there is no such job on this machine").hint(
                "Action \"list\" shows the jobs. A job exists on one machine only, and old jobs are removed.",
            )
        })
    }

    /// The state of a job, and both ends of its output.
    async fn answer(&self, context: &ToolContext, job: &Job) -> Result<Output, CallError> {
        let mut state = read::state(job, context.clock.now());
        let stdout_shown = if job.record.pty { STDOUT_SHOWN + STDERR_SHOWN } else { STDOUT_SHOWN };
        let stdout = read::shown(job, Stream::Stdout, stdout_shown, stdout_shown).await?;
        let stderr = match job.record.pty {
            true => None,
            false => Some(read::shown(job, Stream::Stderr, STDERR_SHOWN, STDERR_SHOWN).await?),
        };
        if state.note.is_none() && state.exit_code.is_some_and(|code| code != 0) {
            let shown_text = &stderr.as_ref().unwrap_or(&stdout).text;
            state.note = refusals::note(&self.machine, shown_text);
        }
        Ok(Output { state: Some(state), stdout: Some(stdout), stderr, ..Output::default() })
    }
}

/// Streams the output of a job as events until it ends, then its exit status.
async fn follow(mut live: Live<'_, Job>, context: &ToolContext, job: &Job) {
    live.until_end().await;
    let state = read::state(job, context.clock.now());
    live.close(json!({
        "job": state.job,
        "exit_code": state.exit_code,
        "signal": state.signal,
        "timed_out": state.timed_out,
        "duration_ms": state.duration_ms,
    }));
}

/// Ends a job when it is dropped: cancelling a call drops its future.
struct CallJobGuard(Arc<Job>);

impl Drop for CallJobGuard {
    fn drop(&mut self) {
        self.0.stop(StopReason::Cancelled);
    }
}

fn refused(message: String) -> CallError {
    CallError::new(ErrorCode::Conflict, message).before_it_ran()
}

fn not_started(error: StartError) -> CallError {
    match error {
        StartError::TooMany(_) => CallError::new(ErrorCode::Overloaded, error.to_string())
            .hint("Nothing was run. Wait for one to end or kill one; action \"list\" shows them."),
        StartError::Io(error) => {
            // E2BIG
            let hint = match error.kind() {
                io::ErrorKind::ArgumentListTooLong => {
                    "Nothing was run. Write the long text to a file, or give it as `stdin`."
                }
                io::ErrorKind::NotFound => "Nothing was run. The program was not found on this machine.",
                _ => "Nothing was run. Check the node's disk and its log.",
            };
            CallError::new(ErrorCode::ToolFailed, format!("the command could not be started: {error}"))
                .hint(hint)
                .before_it_ran()
        }
    }
}
