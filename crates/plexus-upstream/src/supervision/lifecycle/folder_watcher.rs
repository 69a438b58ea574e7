//! Notices that files have changed, by looking again and again.
//!
//! A look costs one `stat` for each file, works on every file system, and needs nothing of the kernel that could run
//! out. A change is acted on when a second look soon after sees the same, so that a file is not read while it is
//! written; what was only touched restarts nothing, because content is compared and not times.
//!
//! What a `${file:…}` names is read with the file that names it, and not watched itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use plexus_kit::Stage;

use crate::config::Reading;
use crate::supervision::Upstreams;

/// More files than the folder may have; those behind them are seen when something else changes.
const MAX_FILES: usize = 1_024;
/// The part of a mode that is not about the owner.
const FOR_OTHERS: u32 = 0o077;

/// What is in a folder, and what others may do with it; empty when there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::supervision) struct Snapshot {
    files: BTreeMap<OsString, Looks>,
    open: u32,
}

/// Time, size and mode of a file.
type Looks = (Option<SystemTime>, u64, u32);

impl Snapshot {
    pub(in crate::supervision) fn of(dir: &Path) -> Self {
        let Ok(entries) = std::fs::read_dir(dir) else { return Self::default() };
        let files = entries.take(MAX_FILES).filter_map(|entry| {
            let entry = entry.ok()?;
            // A link is looked through, so that one that comes or goes is seen; it is refused when it is read.
            let about = std::fs::metadata(entry.path()).ok()?;
            let looks = || (about.modified().ok(), about.len(), about.permissions().mode());
            about.is_file().then(|| (entry.file_name(), looks()))
        });
        let open = std::fs::metadata(dir).map_or(0, |about| about.permissions().mode() & FOR_OTHERS);
        Self { files: files.collect(), open }
    }
}

impl Upstreams {
    /// Reloads when files have changed since `seen`, until the hub stops.
    pub(in crate::supervision) async fn watch(&self, mut seen: Snapshot) {
        let stop = self.0.shared.supervisor.stopping(Stage::Work);
        let mut before = seen.clone();
        let mut told = None;
        let timing = &self.0.shared.timing;
        loop {
            let pause = if before == seen { timing.watch } else { timing.confirm };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let dir = self.folder().dir().to_owned();
            let Ok(now) = tokio::task::spawn_blocking(move || Snapshot::of(&dir)).await else { continue };
            if now != seen && now == before {
                match self.read_again(Reading::Changed).await {
                    Ok(applied) => {
                        // Not before: what could not be read is read again.
                        (seen, told) = (now.clone(), None);
                        // What was added over REST is taken already.
                        if let servers @ [_, ..] = &applied.names()[..] {
                            tracing::info!(?servers, "files of upstream servers have changed");
                        }
                    }
                    // Once, however often it is tried.
                    Err(error) if told.as_ref() == Some(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, "the files of upstream servers cannot be read");
                        told = Some(error);
                    }
                }
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::time::Duration;

    use super::Snapshot;
    use crate::supervision::Timing;

    #[test]
    fn a_change_is_taken_within_a_second() {
        let Timing { watch, confirm, .. } = Timing::default();
        assert!(watch + confirm <= Duration::from_secs(1), "{watch:?} + {confirm:?}");
    }

    #[test]
    fn a_file_that_comes_changes_or_goes_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        let look = || Snapshot::of(dir.path());
        let set_mode =
            |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        set_mode(dir.path(), 0o700);
        let nothing = look();
        assert_eq!(nothing, Snapshot::of(&dir.path().join("missing")));
        std::fs::write(&file, "{}").unwrap();
        let one = look();
        assert_ne!(one, nothing);
        assert_eq!(one, look());
        std::fs::write(&file, "{ }").unwrap();
        assert_ne!(one, look());
        let before = look();
        set_mode(&file, 0o666);
        assert_ne!(before, look(), "who may write it counts");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(nothing, look());
        set_mode(dir.path(), 0o777);
        assert_ne!(nothing, look());
    }
}
