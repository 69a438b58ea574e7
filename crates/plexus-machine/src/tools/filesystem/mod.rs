//! `filesystem`: access to the files of this machine, within its policy.
//!
//! All files are opened through [`crate::files`], which checks the real path of each. Writes are atomic. The work
//! runs on a blocking thread that regularly checks whether the call was cancelled.

mod args;
mod content;
mod copy;
mod delete;
mod diff;
mod edit;
mod glob;
mod grep;
mod hash;
mod listing;
mod moving;
mod near;
mod patch;
mod read;
mod report;
mod smart;
mod write;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_proto::api::ToolAnnotations;
use plexus_tools::{Access, Action, CallError, Outcome, ToolContext, ToolSpec, TypedTool, arguments};
use tokio_util::sync::CancellationToken;

use crate::Machine;
use crate::files::{FileError, Files};
use args::{ALIASES, Args, FileAction};
use report::{Answer, Output};

const NAME: &str = "filesystem";
const DEFAULT_TIME: Duration = Duration::from_secs(120);
const MAX_TIME: Duration = Duration::from_secs(3_600);
/// The time to stop a call after its timeout.
const GRACE: Duration = Duration::from_secs(5);

/// Overwrites or removes, and must run only once: repeating an append, or a removal after the file was created again,
/// has a different result.
const CHANGE: Access = Access {
    annotations: ToolAnnotations {
        read_only_hint: false,
        destructive_hint: true,
        idempotent_hint: false,
        open_world_hint: false,
    },
    bufferable: false,
    repeated: false,
};

/// Leaves an existing folder unchanged.
const MAKE: Access = Access {
    annotations: ToolAnnotations {
        read_only_hint: false,
        destructive_hint: false,
        idempotent_hint: true,
        open_world_hint: false,
    },
    bufferable: false,
    repeated: false,
};

#[derive(Debug)]
pub(super) struct Filesystem {
    machine: Machine,
    /// Held while a file is read and rewritten, so that concurrent edits do not overwrite each other.
    changing: Arc<Mutex<()>>,
}

/// The tool's specification without its schemas.
pub(super) fn spec() -> ToolSpec {
    let access = |action: FileAction| match action {
        FileAction::Read
        | FileAction::List
        | FileAction::Tree
        | FileAction::Glob
        | FileAction::Grep
        | FileAction::Stat
        | FileAction::Diff
        | FileAction::Hash => Access::READ,
        FileAction::Mkdir => MAKE,
        _ => CHANGE,
    };
    let spec = ToolSpec::node(
        NAME,
        "Files",
        "Reads, searches and changes files on a machine, within what its owner allows. To change a part of a file \
         use `edit` (exact text, which must occur once), `smart_edit` if the whitespace is uncertain, or `patch`. \
         Writes are atomic; edits and patches are applied completely or not at all; `delete` moves to the trash. \
         `grep` and `glob` skip hidden and git-ignored files by default.",
        Access::READ,
    );
    let actions = FileAction::ALL.map(|action| Action::new(action.name(), access(action)));
    let spec = spec
        .with_actions(actions.to_vec())
        .with_time("timeout_seconds", MAX_TIME, GRACE)
        .with_aliases(ALIASES);
    ToolSpec { deadline: DEFAULT_TIME + GRACE, ..spec }
}

impl TypedTool for Filesystem {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let call = FileCall {
            files: Files::for_machine(&self.machine),
            cancel: context.cancel.clone(),
            changing: self.changing.clone(),
            now: context.clock.now(),
        };
        let done = tokio::task::spawn_blocking(move || call.execute(&args)).await;
        match done {
            Ok(answer) => answer.map(|answer| Outcome::Ready(answer.into_output())),
            Err(_) => Err(CallError::new(ErrorCode::Internal, "the file operation failed unexpectedly")
                .hint("The node's log has the details. Check the file before you continue.")),
        }
    }
}

impl Filesystem {
    pub(super) fn open(machine: &Machine) -> Self {
        Self { machine: machine.clone(), changing: Arc::default() }
    }
}

/// One call, on the thread that runs it.
#[derive(Debug)]
struct FileCall {
    files: Files,
    cancel: CancellationToken,
    changing: Arc<Mutex<()>>,
    now: plexus_proto::Timestamp,
}

impl FileCall {
    fn execute(&self, args: &Args) -> Result<Answer, CallError> {
        let path = self.files.path(&args.path).map_err(CallError::from).map_err(CallError::before_it_ran)?;
        match args.action {
            FileAction::Read => self.read(&path, args),
            FileAction::Write => self.write(&path, args),
            FileAction::Edit | FileAction::SmartEdit => self.edit(&path, args),
            FileAction::Patch => self.patch(&path, args),
            FileAction::List => self.list(&path, args),
            FileAction::Tree => self.tree(&path, args),
            FileAction::Glob => self.glob(&path, args),
            FileAction::Grep => self.grep(&path, args),
            FileAction::Copy => self.copy(&path, args),
            FileAction::Move => self.move_to(&path, args),
            FileAction::Delete => self.delete(&path, args),
            FileAction::Mkdir => self.mkdir(&path),
            FileAction::Stat => self.stat(&path),
            FileAction::Diff => self.diff(&path, args),
            FileAction::Hash => self.hash(&path),
        }
    }

    /// Fails if the call was cancelled.
    fn check_cancelled(&self) -> Result<(), CallError> {
        if self.cancel.is_cancelled() { Err(FileError::Stopped.into()) } else { Ok(()) }
    }

    fn to(&self, args: &Args) -> Result<std::path::PathBuf, CallError> {
        let to = required_argument(args, "to", args.to.as_deref())?;
        Ok(self.files.path(to)?)
    }
}

fn required_argument<'a, T: ?Sized>(
    args: &Args,
    field: &str,
    value: Option<&'a T>,
) -> Result<&'a T, CallError> {
    value.ok_or_else(|| arguments::missing(NAME, field, args.action.name()).before_it_ran())
}

fn wrong(field: &str, message: impl Into<String>) -> CallError {
    let problem = serde_json::json!({ "path": format!("/{field}"), "message": message.into() });
    arguments::invalid(NAME, vec![problem]).before_it_ran()
}

/// Converts an I/O error on a path.
fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> CallError {
    move |error| FileError::io(path, error).into()
}

#[cfg(test)]
mod tests;
