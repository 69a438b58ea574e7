//! Which thread a Codex is in: the one whose transcript it has open.
//!
//! The name of a transcript ends with the id of its thread. A file that the process itself holds open is its own, however
//! many others run at the same time; where none is open any more, the only one that was made since is taken, and of
//! several none.

use std::path::Path;
use std::time::SystemTime;

use fs_err as fs;
use uuid::Uuid;

use crate::process_stat::{self, Stat};

/// Folders of years, months and days.
const DEPTH: usize = 3;
/// Entries of a folder that are looked at.
const MOST: usize = 10_000;

/// The thread of the Codex that leads this process group or has this number. `home` is `CODEX_HOME`.
#[must_use]
pub fn codex_thread(process: u32, home: &Path, since: SystemTime) -> Option<String> {
    let mut open: Vec<Uuid> = processes(process).into_iter().flat_map(open_transcripts).collect();
    // Those of sub-agents come later, and so do their ids.
    open.sort_unstable();
    let open = open.into_iter().next();
    open.or_else(|| only_new(&home.join("sessions"), since)).map(|thread| thread.to_string())
}

/// The process, those of its group, and what they have started.
fn processes(leader: u32) -> Vec<u32> {
    let all: Vec<Stat> = process_stat::all().filter_map(Stat::of).collect();
    let mut found = vec![leader];
    found.extend(all.iter().filter(|stat| stat.group == leader && stat.pid != leader).map(|stat| stat.pid));
    let mut looked = 0;
    while let Some(&parent) = found.get(looked) {
        looked += 1;
        let children = all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid);
        let new: Vec<u32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(new);
    }
    found
}

fn open_transcripts(process: u32) -> impl Iterator<Item = Uuid> {
    let handles = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten().take(MOST);
    handles.filter_map(|handle| thread_of(&fs::read_link(handle.path()).ok()?))
}

/// The thread of a transcript that was made since, if there is only one.
fn only_new(sessions: &Path, since: SystemTime) -> Option<Uuid> {
    let mut folders = vec![sessions.to_owned()];
    for _ in 0..DEPTH {
        let inner = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        // Only what was changed since can have something new in it, and of folders only the innermost is.
        folders = inner
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|e| e.path())
            .collect();
        folders.sort_unstable();
        folders = folders.split_off(folders.len().saturating_sub(2));
    }
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten().take(MOST));
    let is_new = |meta: &std::fs::Metadata| {
        meta.created().or_else(|_| meta.modified()).is_ok_and(|made| made >= since)
    };
    let mut new = files
        .filter(|file| file.metadata().is_ok_and(|meta| is_new(&meta)))
        .filter_map(|file| thread_of(&file.path()));
    let first = new.next()?;
    new.next().is_none().then_some(first)
}

/// `rollout-<time>-<thread>.jsonl`.
fn thread_of(path: &Path) -> Option<Uuid> {
    let name = path.file_name()?.to_str()?.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    Uuid::try_parse(name.get(name.len().checked_sub(36)?..)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "0199a213-81c0-7800-8aa1-bbab2a035a53";
    const SECOND: &str = "0199a213-81c0-7800-8aa1-bbab2a035a54";

    #[test]
    fn a_transcript_that_is_open_is_the_own_one() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("sessions/2026/11/18");
        std::fs::create_dir_all(&day).unwrap();
        let (own, since) = (std::process::id(), SystemTime::UNIX_EPOCH);
        let path = |thread: &str| day.join(format!("rollout-2026-11-18T05-00-00-{thread}.jsonl"));
        assert_eq!(codex_thread(own, home.path(), since), None);
        std::fs::write(path(SECOND), "").unwrap();
        assert_eq!(codex_thread(own, home.path(), since).as_deref(), Some(SECOND), "the only one");
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert_eq!(codex_thread(own, home.path(), later), None, "from before");
        std::fs::write(path(FIRST), "").unwrap();
        assert_eq!(codex_thread(own, home.path(), since), None, "one of two");
        let _open = std::fs::File::open(path(FIRST)).unwrap();
        assert_eq!(codex_thread(own, home.path(), since).as_deref(), Some(FIRST));
    }
}
