//! `code_exec`: runs a snippet of Python, JavaScript or shell in a temporary folder.
//!
//! Its limits are set by the policy of the machine and apply without a sandbox as well: the [`warden`](crate::warden)
//! enforces them, and ends every process of the snippet when the snippet ends for any reason.

mod args;
mod collect;
mod folder;
mod languages;
mod report;
mod running;
mod snippet;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Stage, private_file};
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool};
use serde_json::json;
use tokio::sync::Semaphore;

use super::output::{Captured, Live};
use super::{CODE_EXEC, COMMAND};
use crate::Machine;
use crate::policy::CodeLimits;
use crate::warden;
use args::{ALIASES, Args, DEFAULT_TIME, MAX_TIME};
use report::Output;
use snippet::{MARKER_VARIABLE, Snippet};

/// The time to end all processes, to collect files and to answer.
const GRACE: Duration = Duration::from_secs(20);
/// The maximum number of concurrent snippets.
const MAX_RUNNING: usize = 8;
/// The maximum number of files and folders of a snippet.
const MAX_ENTRIES: u64 = 10_000;
/// A snippet that writes this many times the retained output is killed.
const OUTPUT_FACTOR: u64 = 64;

#[derive(Debug)]
pub(super) struct CodeExec {
    machine: Machine,
    folder: PathBuf,
    running_slots: Arc<Semaphore>,
}

/// The tool's specification without its schemas.
pub(super) fn spec() -> ToolSpec {
    let spec = ToolSpec::node(
        CODE_EXEC,
        "Run code",
        "Runs a snippet of Python, JavaScript (Node.js) or shell on a machine, in an empty folder that is removed \
         afterwards. Give input as `files`; the files that it writes into its working folder are returned. Time, CPU \
         time, memory, processes, files and output are limited, and nothing continues in the background. No state \
         carries over between calls.",
        COMMAND,
    );
    let spec = spec.with_time("timeout_seconds", MAX_TIME, GRACE).with_aliases(ALIASES);
    ToolSpec { deadline: DEFAULT_TIME + GRACE, ..spec }
}

impl TypedTool for CodeExec {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let slot = self.running_slots.clone().try_acquire_owned().map_err(|_| {
            CallError::new(
                ErrorCode::Overloaded,
                format!("{MAX_RUNNING} snippets are already running, which is the maximum"),
            )
            .hint("Nothing was run. Wait for one to end.")
        })?;
        let snippet = Snippet::new(&self.machine, &self.folder, args)?;
        let id = snippet.id.clone();
        let written = Arc::new(Captured::new(("job", &id), snippet.retained(), snippet.retained()));
        // The snippet ends with the call, and with the node.
        let unwanted = self.machine.supervisor.stopping(Stage::Work).child_token();
        let _leash = unwanted.clone().drop_guard();
        let work = {
            let written = written.clone();
            async move {
                let _slot = slot;
                let ran = snippet.run(&written, &unwanted).await;
                written.end();
                ran
            }
        };
        // Cancelling a call drops its future; the snippet is then still ended and removed.
        let work = self.machine.supervisor.run_to_completion(Stage::Work, "code", work);
        let telling = async {
            let mut live = Live::from_start(&context, &*written);
            live.until_end().await;
            live
        };
        let (ran, live) = tokio::join!(work, telling);
        let (output, text) = ran?;
        live.close(json!({
            "job": id,
            "exit_code": output.exit_code,
            "signal": output.signal,
            "timed_out": output.timed_out,
            "duration_ms": output.duration_ms,
        }));
        Ok(Outcome::Ready(ToolOutput::new(text, &output)))
    }
}

impl CodeExec {
    /// Ends and removes what an earlier process left.
    pub(super) fn open(machine: &Machine) -> io::Result<Self> {
        let folder = machine.data_dir.join("code");
        private_file::create_dir(&folder)?;
        // The sandbox compares real paths.
        let folder = fs_err::canonicalize(folder)?;
        let leftovers = folder::leftover_folders(&folder)?;
        if !leftovers.is_empty() {
            let clearing = tokio::task::spawn_blocking(move || {
                for snippet_folder in leftovers {
                    warden::end_marked(&format!("{MARKER_VARIABLE}={}", snippet_folder.id()));
                    snippet_folder.remove();
                }
            });
            machine.supervisor.spawn(Stage::Work, "code that was left", async { drop(clearing.await) });
        }
        Ok(Self { machine: machine.clone(), folder, running_slots: Arc::new(Semaphore::new(MAX_RUNNING)) })
    }
}

/// The number of bytes of one output stream after which a snippet is killed.
fn max_output(limits: &CodeLimits) -> u64 {
    limits.output.saturating_mul(OUTPUT_FACTOR)
}
