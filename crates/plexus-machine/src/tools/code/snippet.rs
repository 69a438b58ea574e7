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

use super::args::{self, Args, DEFAULT_TIME, InputFile, wrong};
use super::collect::{self, CollectedFiles, FileSelection, FileSnapshot};
use super::folder::SnippetFolder;
use super::report::{Output, RunResult};
use super::running::{self, RunEnd, Start};
use super::{CODE_EXEC, MAX_ENTRIES, max_output};
use crate::Machine;
use crate::launch::{Launch, Launcher, Limits, Sandbox};
use crate::policy::CodeLimits;
use crate::tools::output::{Captured, Stream};
use crate::tools::{SANDBOX_OWNER_HINT, variables};
use crate::warden::{self, Limit, Report};

/// Set in the environment of a snippet, so that its leftover processes can be recognised.
pub(super) const MARKER_VARIABLE: &str = env::JOB.name;

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
    files: Vec<InputFile>,
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
        if let Some(index) = args.args.iter().flatten().position(|word| word.contains('\0')) {
            return Err(wrong(&format!("args/{index}"), "must not contain the character U+0000"));
        }
        let id = format!("code-{:016x}", rand::random::<u64>());
        let work = SnippetFolder::at(parent, &id).work();
        let sandbox = machine.sandbox(&policy, &work).map_err(|unavailable| {
            CallError::new(ErrorCode::Forbidden, unavailable.to_string())
                .hint(SANDBOX_OWNER_HINT)
                .before_it_ran()
        })?;
        let interpreter = args.language.interpreter(&machine.environment)?;
        let files = args::files(&mut args, policy.code.file)?;
        let caller_variables = variables::checked(CODE_EXEC, &policy, args.env.take())?;
        // The user's own settings are in the home folder, which differs from the snippet's.
        let passed =
            policy.environment.passed(&machine.environment).filter(|(name, _)| !name.starts_with("XDG_"));
        let mut variables: BTreeMap<_, _> =
            passed.chain(args.language.variables().iter().copied()).map(to_owned_pair).collect();
        variables.extend(caller_variables);
        let script = files[0].name.clone().into();
        let words = args.args.take().unwrap_or_default().into_iter().map(OsString::from);
        let requested_time = args.timeout_seconds.map_or(DEFAULT_TIME, Duration::from_secs);
        Ok(Self {
            id,
            parent: parent.to_owned(),
            launcher,
            limits: CodeLimits { time: requested_time.min(policy.code.time), ..policy.code },
            sandbox,
            argv: [interpreter.into_os_string(), script].into_iter().chain(words).collect(),
            variables,
            files,
            stdin: args.stdin,
            collect: args.collect,
        })
    }

    /// The number of bytes retained of each output stream.
    pub(super) fn retained(&self) -> usize {
        usize::try_from(self.limits.output).unwrap_or(usize::MAX)
    }

    /// Runs the snippet. Nothing of it remains afterwards.
    pub(super) async fn run(
        mut self,
        written: &Arc<Captured>,
        unwanted: &CancellationToken,
    ) -> Result<(Output, String), CallError> {
        let (parent, id) = (self.parent.clone(), self.id.clone());
        let (files, stdin) = (std::mem::take(&mut self.files), self.stdin.take());
        let has_stdin = stdin.is_some();
        let made = blocking(move || {
            let snippet_folder = SnippetFolder::create(&parent, &id, &files, stdin.as_deref())?;
            let before = FileSnapshot::of(&snippet_folder.work())?;
            Ok((snippet_folder, before))
        });
        let (snippet_folder, before) = made.await.map_err(|error| not_started(&error))?;
        let start = self.start(&snippet_folder, has_stdin);
        let ended = running::run(&start, written, unwanted).await;
        let snippet_folder = Arc::new(snippet_folder);
        let answer = match ended {
            Ok(ended) => self.answer(ended, written, before, snippet_folder.clone()).await,
            Err(error) => Err(not_started(&error)),
        };
        let _ = blocking(move || {
            snippet_folder.remove();
            Ok(())
        })
        .await;
        answer
    }

    fn start(&self, snippet_folder: &SnippetFolder, has_stdin: bool) -> Start {
        let limits = &self.limits;
        let launch = Launch {
            argv: self.argv.clone(),
            sandbox: self.sandbox.clone().map(|sandbox| sandbox.with_own(snippet_folder.path().to_owned())),
            limits: Some(Limits {
                time: limits.time,
                cpu: limits.cpu,
                memory: limits.memory,
                file: limits.file,
                entries: MAX_ENTRIES,
                processes: limits.processes,
                folder: snippet_folder.path().to_owned(),
                stdin: has_stdin.then(|| snippet_folder.stdin()),
            }),
            ..Launch::default()
        };
        let mut variables = self.variables.clone();
        let path_text = |path: PathBuf| path.display().to_string();
        for (name, value) in [("HOME", snippet_folder.home()), ("TMPDIR", snippet_folder.tmp())] {
            variables.insert(name.to_owned(), path_text(value));
        }
        variables.insert(MARKER_VARIABLE.to_owned(), self.id.clone());
        Start {
            launcher: self.launcher.clone(),
            launch,
            cwd: snippet_folder.work(),
            environment: variables.into_iter().collect(),
            most_output: max_output(limits),
        }
    }

    async fn answer(
        self,
        ended: RunEnd,
        written: &Arc<Captured>,
        before: FileSnapshot,
        snippet_folder: Arc<SnippetFolder>,
    ) -> Result<(Output, String), CallError> {
        let report = match ended {
            RunEnd::Reported(report) => report,
            RunEnd::TooMuch(report) => Report { limit: Some(Limit::Output), cancelled: false, ..report },
            RunEnd::Unwatched => {
                let mark = format!("{MARKER_VARIABLE}={}", self.id);
                let _ = blocking(move || {
                    warden::end_marked(&mark);
                    Ok(())
                })
                .await;
                return Err(warden_lost());
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
        let selection = self.collect.map_or_else(|| FileSelection::Changed(before), FileSelection::Named);
        let (limits, written) = (self.limits, written.clone());
        let answered = blocking(move || {
            let (stdout, stderr) = (written.retained(Stream::Stdout), written.retained(Stream::Stderr));
            let note = (report.escaped > 0).then(|| {
                format!("{} processes could not be killed and may still be running", report.escaped)
            });
            let ran = RunResult { report: &report, limits: &limits, stdout: &stdout, stderr: &stderr, note };
            let (output, max_bytes) = Output::of(&ran);
            let found =
                collect::collect(&snippet_folder.work(), &selection, max_bytes).unwrap_or_else(|error| {
                    // The snippet may have removed its own folder.
                    tracing::debug!(%error, "the folder of a snippet cannot be read");
                    CollectedFiles::default()
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

fn to_owned_pair((name, value): (&str, &str)) -> (String, String) {
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

fn warden_lost() -> CallError {
    CallError::new(
        ErrorCode::ToolFailed,
        "the code ran, but the process that enforced its limits was killed; all of its processes that could be found \
         were killed",
    )
    .hint("It is unknown how far it got. This happens to code that kills other processes of the user.")
}
