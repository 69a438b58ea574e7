//! `plexus up --background`: runs the hub in a new session, which outlives the terminal.
//!
//! It runs this program again without `--background`. The child's standard output is a pipe until the hub is ready,
//! and its log goes to a file in the data folder.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};

use anyhow::Context as _;
use plexus_hub::LOG_FILE;
use plexus_kit::{Config, Environment, private_file};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::failure::{Exit, Failure};
use crate::hub_file::{HubFile, HubLock};
use crate::output::Output;
use crate::shell;
use crate::signals::Signals;

/// A larger log is rotated when the hub starts. The previous rotated log is replaced.
const MAX_LOG_SIZE: u64 = 16 << 20;
/// Size of the end of the log that is shown if the start fails.
const LOG_TAIL_SIZE: u64 = 4 << 10;
/// The first line that a hub prints when it is ready.
const READY_LINE: &str = "Plexus is ready.";

pub(super) async fn start(
    config: &Config,
    environment: &Environment,
    out: &Output,
) -> anyhow::Result<ExitCode> {
    let data_dir = &config.data_dir;
    let log_path = data_dir.join(LOG_FILE);
    if let Some(pid) = HubLock::holder(data_dir) {
        out.note(&format!("A hub already runs on the data folder {}.", data_dir.display()));
        return print_summary(out, data_dir, None, pid, environment);
    }
    private_file::create_dir(data_dir)
        .with_context(|| format!("cannot create the data folder {}", data_dir.display()))?;
    let mut log = open_log(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let log_start = log.seek(SeekFrom::End(0))?;
    let mut signals = Signals::new()?;
    let mut child = spawn(&log)?;
    let progress = out.progress("Starting the hub");
    let started = tokio::select! {
        started = wait_until_ready(&mut child) => started?,
        () = signals.next() => {
            let _ = child.kill().await;
            return Err(Failure::new(Exit::Failed, "interrupted; the hub was not started").into());
        }
    };
    match started {
        None => {
            progress.finish("Started the hub");
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
            print_summary(out, data_dir, Some(&log_path), pid, environment)
        }
        Some(status) => {
            drop(progress);
            Err(start_failure(status, &log_path, log_start))
        }
    }
}

/// Waits until the hub is ready. Returns its exit status if it ends instead.
async fn wait_until_ready(child: &mut Child) -> anyhow::Result<Option<ExitStatus>> {
    let stdout = child.stdout.take().context("the hub has no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if line == READY_LINE {
            return Ok(None);
        }
    }
    Ok(Some(child.wait().await?))
}

fn open_log(path: &Path) -> io::Result<File> {
    if path.metadata().is_ok_and(|metadata| metadata.len() > MAX_LOG_SIZE) {
        fs_err::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)
}

/// Runs the same command line without `--background`.
fn spawn(log: &File) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let args = std::env::args_os().skip(1).filter(|word| word != "--background");
    let mut command = Command::new(program);
    command
        .args(args)
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone().context("cannot duplicate the log's file descriptor")?)
        .kill_on_drop(false);
    command.spawn().context("cannot start the hub")
}

/// Prints the hub's URL, and how to stop it.
fn print_summary(
    out: &Output,
    data_dir: &Path,
    log: Option<&PathBuf>,
    pid: Option<i32>,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    // A hub that is still starting has not written its URL yet.
    let url = HubFile::read(data_dir)?.filter(|hub| Some(hub.pid) == pid).map(|hub| hub.url);
    let url = url.as_ref().map(|url| url.as_str().trim_end_matches('/'));
    if out.json() {
        let summary = json!({ "url": url, "pid": pid, "data_dir": data_dir, "log": log, "already_running": log.is_none() });
        out.json_line(&summary.to_string())?;
        return Ok(Exit::Ok.into());
    }
    let mut fields =
        vec![("MCP endpoint", url.map_or_else(|| "not yet known".to_owned(), |url| format!("{url}/mcp")))];
    fields.push(("Process", pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())));
    fields.push(("Data folder", data_dir.display().to_string()));
    fields.extend(log.map(|log| ("Log", log.display().to_string())));
    out.fields(&fields)?;
    let flag = super::folder_flag(data_dir, environment);
    out.note(&format!("Stop it with `{}{flag} down`.", shell::plexus(environment)));
    Ok(Exit::Ok.into())
}

/// The error for a hub that ended before it was ready. `log_start` is where its output starts in the log.
fn start_failure(status: ExitStatus, log: &Path, log_start: u64) -> anyhow::Error {
    let tail = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(log_start.max(end.saturating_sub(LOG_TAIL_SIZE))))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    };
    let message = match tail().unwrap_or_default() {
        empty if empty.is_empty() => format!("the hub ended before it was ready ({status})"),
        tail => format!("the hub ended before it was ready ({status}):\n{tail}"),
    };
    let exit = if status.code() == Some(Exit::Usage as i32) { Exit::Usage } else { Exit::Failed };
    if log_start == 0 {
        // The error contains the end of this new log, and the folder may not belong to Plexus.
        let _ = fs_err::remove_file(log);
    }
    Failure::new(exit, message).into()
}
