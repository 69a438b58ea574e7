//! Detects changed files by polling.
//!
//! A poll costs one `stat` per file, works on every file system, and needs no kernel resources that could run
//! out. A change is applied when a second poll soon after sees the same state, so that a file is not read
//! while it is being written. A file that was only touched restarts nothing, because contents are compared,
//! not times.
//!
//! The target of a `${file:…}` reference is read with the file that names it, and is not watched itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use plexus_kit::Stage;

use crate::config::Reading;
use crate::supervision::Upstreams;

/// More files than the folder may have; changes of further files are noticed with the next other change.
const MAX_FILES: usize = 1_024;
/// The mode bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// The files in a folder, and what other users may do with the folder; empty if it does not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::supervision) struct Snapshot {
    files: BTreeMap<OsString, FileStat>,
    open: u32,
}

/// Time, size and mode of a file.
type FileStat = (Option<SystemTime>, u64, u32);

impl Snapshot {
    pub(in crate::supervision) fn of(dir: &Path) -> Self {
        let Ok(entries) = std::fs::read_dir(dir) else { return Self::default() };
        let files = entries.take(MAX_FILES).filter_map(|entry| {
            let entry = entry.ok()?;
            // Symlinks are followed, so that one that appears or disappears is noticed; reading refuses it.
            let about = std::fs::metadata(entry.path()).ok()?;
            let looks = || (about.modified().ok(), about.len(), about.permissions().mode());
            about.is_file().then(|| (entry.file_name(), looks()))
        });
        let open = std::fs::metadata(dir).map_or(0, |about| about.permissions().mode() & GROUP_AND_OTHERS);
        Self { files: files.collect(), open }
    }
}

impl Upstreams {
    /// Reloads when files have changed since `last_applied`, until the hub stops.
    pub(in crate::supervision) async fn watch(&self, mut last_applied: Snapshot) {
        let stop = self.0.shared.supervisor.stopping(Stage::Work);
        let mut before = last_applied.clone();
        let mut reported = None;
        let timing = &self.0.shared.timing;
        loop {
            let pause = if before == last_applied { timing.watch } else { timing.confirm };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let dir = self.folder().dir().to_owned();
            let Ok(now) = tokio::task::spawn_blocking(move || Snapshot::of(&dir)).await else { continue };
            if now != last_applied && now == before {
                match self.apply_files(Reading::Changed).await {
                    Ok(applied) => {
                        // Only now, so that files that could not be read are read again.
                        (last_applied, reported) = (now.clone(), None);
                        // Servers added over REST have already been applied.
                        if let servers @ [_, ..] = &applied.names()[..] {
                            tracing::info!(?servers, "files of upstream servers have changed");
                        }
                    }
                    // Logged once, however often it is retried.
                    Err(error) if reported.as_ref() == Some(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the files of upstream servers");
                        reported = Some(error);
                    }
                }
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests;
