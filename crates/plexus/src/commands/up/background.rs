//! `plexus up --background`: the hub as a process of its own session, which outlives the terminal.
//!
//! This program is run again without `--background`. Its standard output is a pipe until it is ready, and its log goes to a
//! file in the data folder.

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

/// A longer log is put aside when the hub is started, in the place of the one before it.
const MAX_LOG: u64 = 16 << 20;
/// Part of a log that is shown when the start fails.
const SHOWN: u64 = 4 << 10;
/// First line that a hub prints when it is ready.
const READY: &str = "Plexus is ready.";

pub(super) async fn start(
    config: &Config,
    environment: &Environment,
    out: &Output,
) -> anyhow::Result<ExitCode> {
    let data_dir = &config.data_dir;
    let log_path = data_dir.join(LOG_FILE);
    if let Some(pid) = HubLock::holder(data_dir) {
        out.note(&format!("A hub already runs on the data folder {}.", data_dir.display()));
        return told(out, data_dir, None, pid, environment);
    }
    private_file::create_dir(data_dir)
        .with_context(|| format!("cannot make the data folder {}", data_dir.display()))?;
    let mut log = open_log(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let begin = log.seek(SeekFrom::End(0))?;
    let mut signals = Signals::new()?;
    let mut child = spawn(&log)?;
    let progress = out.progress("Starting the hub");
    let started = tokio::select! {
        started = ready(&mut child) => started?,
        () = signals.next() => {
            let _ = child.kill().await;
            return Err(Failure::new(Exit::Failed, "interrupted; the hub was not started").into());
        }
    };
    match started {
        None => {
            progress.finish("Started the hub");
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
            told(out, data_dir, Some(&log_path), pid, environment)
        }
        Some(status) => {
            drop(progress);
            Err(failed(status, &log_path, begin))
        }
    }
}

/// Waits until the hub is ready. Some: it has ended instead.
async fn ready(child: &mut Child) -> anyhow::Result<Option<ExitStatus>> {
    let stdout = child.stdout.take().context("the hub has no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if line == READY {
            return Ok(None);
        }
    }
    Ok(Some(child.wait().await?))
}

fn open_log(path: &Path) -> io::Result<File> {
    if path.metadata().is_ok_and(|about| about.len() > MAX_LOG) {
        fs_err::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)
}

/// The same command line, but for the flag that brought us here.
fn spawn(log: &File) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find out where this program is")?;
    let given = std::env::args_os().skip(1).filter(|word| word != "--background");
    let mut command = Command::new(program);
    command
        .args(given)
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone().context("cannot hand the log to the hub")?)
        .kill_on_drop(false);
    command.spawn().context("cannot start the hub")
}

/// Where the hub is, and how it is ended.
fn told(
    out: &Output,
    data_dir: &Path,
    log: Option<&PathBuf>,
    pid: Option<i32>,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    // One that is still starting has not written its address.
    let url = HubFile::read(data_dir)?.filter(|hub| Some(hub.pid) == pid).map(|hub| hub.url);
    let url = url.as_ref().map(|url| url.as_str().trim_end_matches('/'));
    if out.json() {
        let about = json!({ "url": url, "pid": pid, "data_dir": data_dir, "log": log, "already_running": log.is_none() });
        out.json_line(&about.to_string())?;
        return Ok(Exit::Ok.into());
    }
    let mut fields =
        vec![("MCP endpoint", url.map_or_else(|| "not known yet".to_owned(), |url| format!("{url}/mcp")))];
    fields.push(("Process", pid.map_or_else(|| "not known".to_owned(), |pid| pid.to_string())));
    fields.push(("Data folder", data_dir.display().to_string()));
    fields.extend(log.map(|log| ("Log", log.display().to_string())));
    out.fields(&fields)?;
    let flag = super::folder_flag(data_dir, environment);
    out.note(&format!("Stop it with `{}{flag} down`.", shell::plexus(environment)));
    Ok(Exit::Ok.into())
}

fn failed(status: ExitStatus, log: &Path, begin: u64) -> anyhow::Error {
    let tail = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(begin.max(end.saturating_sub(SHOWN))))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    };
    let message = match tail().unwrap_or_default() {
        empty if empty.is_empty() => format!("the hub ended before it was ready ({status})"),
        said => format!("the hub ended before it was ready ({status}):\n{said}"),
    };
    let exit = if status.code() == Some(Exit::Usage as i32) { Exit::Usage } else { Exit::Failed };
    if begin == 0 {
        // All of it was told, and the folder may not be one of ours.
        let _ = fs_err::remove_file(log);
    }
    Failure::new(exit, message).into()
}
