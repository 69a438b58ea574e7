//! Finds the thread of a Codex process by the transcript that it has open.
//!
//! The file name of a transcript ends with the thread id. A transcript that the process has open is its own, even if
//! other Codex processes are running. After the process has ended, the transcript is the one created during the run
//! for the same folder, if there is only one.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::SystemTime;

use fs_err as fs;
use plexus_kit::process::{Stat, pids};
use uuid::Uuid;

/// Depth of the folders by year, month and day.
const DEPTH: usize = 3;
/// Maximum length of the first line, which contains the instructions of the model.
const MAX_LINE: u64 = 4 << 20;
/// Maximum number of entries read per folder.
const MAX_ENTRIES: usize = 10_000;

/// The thread of a running Codex, given as its process id or the leader of its process group.
#[must_use]
pub fn codex_thread(process: u32) -> Option<String> {
    let open = processes(process).into_iter().flat_map(open_transcripts);
    // The main thread has the smallest id: sub-agents start later, and ids are ordered by time.
    open.min().map(|thread| thread.to_string())
}

/// The thread of an ended Codex: of the only transcript created since `since` for this folder. `home` is `CODEX_HOME`.
#[must_use]
pub fn ended_codex_thread(home: &Path, since: SystemTime, folder: &Path) -> Option<String> {
    only_new(&home.join("sessions"), since, folder).map(|thread| thread.to_string())
}

/// The process, its group, and their descendants.
fn processes(leader: u32) -> Vec<u32> {
    let all: Vec<Stat> = pids().filter_map(Stat::of).collect();
    let mut found = vec![leader];
    found.extend(all.iter().filter(|stat| stat.group == leader && stat.pid != leader).map(|stat| stat.pid));
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        let children = all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid);
        let new: Vec<u32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(new);
    }
    found
}

fn open_transcripts(process: u32) -> impl Iterator<Item = Uuid> {
    let handles =
        fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten().take(MAX_ENTRIES);
    handles.filter_map(|handle| thread_of(&fs::read_link(handle.path()).ok()?))
}

/// The thread of the only transcript created since `since` for this folder.
fn only_new(sessions: &Path, since: SystemTime, folder: &Path) -> Option<Uuid> {
    let mut folders = vec![sessions.to_owned()];
    for _ in 0..DEPTH {
        let inner = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        // The newest two, for a run across midnight.
        folders = inner
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|e| e.path())
            .collect();
        folders.sort_unstable();
        folders = folders.split_off(folders.len().saturating_sub(2));
    }
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES));
    let is_new = |meta: &std::fs::Metadata| {
        meta.created().or_else(|_| meta.modified()).is_ok_and(|made| made >= since)
    };
    let mut new = files
        .filter(|file| file.metadata().is_ok_and(|meta| is_new(&meta)))
        .filter(|file| has_working_folder(&file.path(), folder))
        .filter_map(|file| thread_of(&file.path()));
    let first = new.next()?;
    new.next().is_none().then_some(first)
}

/// Whether the first line of a transcript names this working folder.
fn has_working_folder(path: &Path, folder: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else { return false };
    let mut line = String::new();
    if BufReader::new(file.take(MAX_LINE)).read_line(&mut line).is_err() {
        return false;
    }
    let about: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
    about["payload"]["cwd"].as_str().is_some_and(|cwd| Path::new(cwd) == folder)
}

/// `rollout-<time>-<thread>.jsonl`.
fn thread_of(path: &Path) -> Option<Uuid> {
    let name = path.file_name()?.to_str()?.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    Uuid::try_parse(name.get(name.len().checked_sub(36)?..)?).ok()
}

#[cfg(test)]
mod tests;
