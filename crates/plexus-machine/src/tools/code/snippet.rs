//! One snippet: from the arguments, through its folder and run, to the answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::env;
use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use tokio_util::sync::CancellationToken;

use super::args::{self, Args, DEFAULT_TIME, Given, wrong};
use super::collect::{self, Before, Found, Wanted};
use super::folder::Scratch;
use super::report::{Output, Ran};
use super::running::{self, RunEnd, Start, Written};
use super::{CODE_EXEC, ENTRIES, most_output};
use crate::Machine;
use crate::launch::{Launch, Launcher, Limits, Sandbox};
use crate::policy::CodeLimits;
use crate::tools::output::Stream;
use crate::tools::{UNHELD, variables};
use crate::warden::{self, Limit, Report};

/// Set in the environment of a snippet, so that its leftover processes can be recognised.
pub(super) const MARK: &str = env::JOB.name;

#[derive(Debug)]
pub(super) struct Snippet {
    /// Also the name of its folder.
    pub(super) id: String,
    parent: PathBuf,
    launcher: Launcher,
    sandbox: Option<Sandbox>,
    /// The limits of the policy, with the requested timeout.
    limits: CodeLimits,
    argv: Vec<OsString>,
    variables: BTreeMap<String, String>,
    files: Vec<Given>,
    stdin: Option<String>,
    collect: Option<Vec<String>>,
}

impl Snippet {
    pub(super) fn new(machine: &Machine, parent: &Path, mut args: Args) -> Result<Self, CallError> {
        let policy = machine.policy.now();
        let launcher = machine.launcher.clone().ok_or_else(|| {
            CallError::new(ErrorCode::Unavailable, "this node cannot enforce limits on code, so it runs none")
                .hint("Nothing was run. Use another machine.")
                .before_it_ran()
        })?;
        if let Some(place) = args.args.iter().flatten().position(|word| word.contains('\0')) {
            return Err(wrong(&format!("args/{place}"), "must not contain the character U+0000"));
        }
        let id = format!("code-{:016x}", rand::random::<u64>());
        let work = Scratch::at(parent, &id).work();
        let sandbox = machine.sandbox(&policy, &work).map_err(|unavailable| {
            CallError::new(ErrorCode::Forbidden, unavailable.to_string()).hint(UNHELD).before_it_ran()
        })?;
        let interpreter = args.language.interpreter(&machine.environment)?;
        let files = args::files(&mut args, policy.code.file)?;
        let given = variables::checked(CODE_EXEC, &policy, args.env.take())?;
        // The user's own settings are in the home folder, which differs from the snippet's.
        let passed =
            policy.environment.passed(&machine.environment).filter(|(name, _)| !name.starts_with("XDG_"));
        let mut variables: BTreeMap<_, _> =
            passed.chain(args.language.variables().iter().copied()).map(own).collect();
        variables.extend(given);
        let script = files[0].name.clone().into();
        let words = args.args.take().unwrap_or_default().into_iter().map(OsString::from);
        let asked = args.timeout_seconds.map_or(DEFAULT_TIME, Duration::from_secs);
        Ok(Self {
            id,
            parent: parent.to_owned(),
            launcher,
            limits: CodeLimits { time: asked.min(policy.code.time), ..policy.code },
            sandbox,
            argv: [interpreter.into_os_string(), script].into_iter().chain(words).collect(),
            variables,
            files,
            stdin: args.stdin,
            collect: args.collect,
        })
    }

    /// The number of bytes retained of each output stream.
    pub(super) fn kept(&self) -> usize {
        usize::try_from(self.limits.output).unwrap_or(usize::MAX)
    }

    /// Runs the snippet. Nothing of it remains afterwards.
    pub(super) async fn run(
        mut self,
        written: &Arc<Written>,
        unwanted: &CancellationToken,
    ) -> Result<(Output, String), CallError> {
        let (parent, id) = (self.parent.clone(), self.id.clone());
        let (files, stdin) = (std::mem::take(&mut self.files), self.stdin.take());
        let has_stdin = stdin.is_some();
        let made = blocking(move || {
            let scratch = Scratch::create(&parent, &id, &files, stdin.as_deref())?;
            let before = Before::of(&scratch.work())?;
            Ok((scratch, before))
        });
        let (scratch, before) = made.await.map_err(|error| not_started(&error))?;
        let start = self.start(&scratch, has_stdin);
        let ended = running::run(&start, written, unwanted).await;
        let scratch = Arc::new(scratch);
        let answer = match ended {
            Ok(ended) => self.answer(ended, written, before, scratch.clone()).await,
            Err(error) => Err(not_started(&error)),
        };
        let _ = blocking(move || {
            scratch.remove();
            Ok(())
        })
        .await;
        answer
    }

    fn start(&self, scratch: &Scratch, has_stdin: bool) -> Start {
        let limits = &self.limits;
        let launch = Launch {
            argv: self.argv.clone(),
            sandbox: self.sandbox.clone().map(|sandbox| sandbox.with_own(scratch.path().to_owned())),
            limits: Some(Limits {
                time: limits.time,
                cpu: limits.cpu,
                memory: limits.memory,
                file: limits.file,
                entries: ENTRIES,
                processes: limits.processes,
                folder: scratch.path().to_owned(),
                stdin: has_stdin.then(|| scratch.stdin()),
            }),
            ..Launch::default()
        };
        let mut variables = self.variables.clone();
        let place = |path: PathBuf| path.display().to_string();
        for (name, value) in [("HOME", scratch.home()), ("TMPDIR", scratch.tmp())] {
            variables.insert(name.to_owned(), place(value));
        }
        variables.insert(MARK.to_owned(), self.id.clone());
        Start {
            launcher: self.launcher.clone(),
            launch,
            cwd: scratch.work(),
            environment: variables.into_iter().collect(),
            most_output: most_output(limits),
        }
    }

    async fn answer(
        self,
        ended: RunEnd,
        written: &Arc<Written>,
        before: Before,
        scratch: Arc<Scratch>,
    ) -> Result<(Output, String), CallError> {
        let report = match ended {
            RunEnd::Reported(report) => report,
            RunEnd::TooMuch(report) => Report { limit: Some(Limit::Output), cancelled: false, ..report },
            RunEnd::Unwatched => {
                let mark = format!("{MARK}={}", self.id);
                let _ = blocking(move || {
                    warden::end_marked(&mark);
                    Ok(())
                })
                .await;
                return Err(unwatched());
            }
        };
        if let Some(why) = report.failed {
            return Err(could_not_be_started(&why));
        }
        if report.cancelled {
            return Err(CallError::new(
                ErrorCode::Cancelled,
                "the code was killed because its call was cancelled",
            ));
        }
        let wanted = self.collect.map_or_else(|| Wanted::Changed(before), Wanted::Named);
        let (limits, written) = (self.limits, written.clone());
        let answered = blocking(move || {
            let (stdout, stderr) = (written.kept(Stream::Stdout), written.kept(Stream::Stderr));
            let note = (report.escaped > 0).then(|| {
                format!("{} processes could not be killed and may still be running", report.escaped)
            });
            let ran = Ran { report: &report, limits: &limits, stdout: &stdout, stderr: &stderr, note };
            let (output, room) = Output::of(&ran);
            let found = collect::collect(&scratch.work(), &wanted, room).unwrap_or_else(|error| {
                // The snippet may have removed its own folder.
                tracing::debug!(%error, "the folder of a snippet cannot be read");
                Found::default()
            });
            let output = output.with_files(found);
            let text = output.text(&ran);
            Ok((output, text))
        });
        answered.await.map_err(|error| {
            CallError::new(ErrorCode::Internal, format!("the code ran, but its result was lost: {error}"))
                .hint("The node's log has the details.")
        })
    }
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Runs file operations on a blocking thread, because the disk may be slow.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
}

fn not_started(error: &std::io::Error) -> CallError {
    let hint = match error.kind() {
        std::io::ErrorKind::ArgumentListTooLong => {
            "Nothing was run. Give the long text as a file, or as `stdin`."
        }
        _ => "Nothing was run. Check the node's disk and its log.",
    };
    CallError::new(ErrorCode::ToolFailed, format!("the code could not be started: {error}"))
        .hint(hint)
        .before_it_ran()
}

fn could_not_be_started(why: &str) -> CallError {
    CallError::new(ErrorCode::ToolFailed, format!("the code could not be started: {why}"))
        .hint("Nothing was run. Arguments and variables may be too long; give long text as a file, or as `stdin`.")
        .before_it_ran()
}

fn unwatched() -> CallError {
    CallError::new(
        ErrorCode::ToolFailed,
        "the code ran, but the process that enforced its limits was killed; all of its processes that could be found \
         were killed",
    )
    .hint("It is unknown how far it got. This happens to code that kills other processes of the user.")
}
