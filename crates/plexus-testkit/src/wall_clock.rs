//! The wall clock of processes, which a test can move while they run.
//!
//! libfaketime is preloaded into them and reads the offset from a file at each access of the clock, so a jump is
//! visible immediately. The monotonic clock is not affected, as on a machine whose date is changed.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::pinned::installed;
use crate::process::Plexus;

/// A wall clock shared by all processes that use it.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    folder: TempDir,
}

impl WallClock {
    /// A clock with the correct time. `None` without libfaketime, which is printed; with `CI=true` that is a failure.
    pub async fn new() -> Option<Self> {
        let library = installed("faketime", &["find"]).await?;
        let clock = Self { library, folder: tempfile::tempdir().expect("a temporary folder") };
        clock.set(0);
        Some(clock)
    }

    /// Makes everything that is run in this home use this clock.
    #[must_use]
    pub fn of(&self, plexus: Plexus) -> Plexus {
        plexus
            .with("LD_PRELOAD", self.library.display().to_string())
            .with("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string())
            .with("FAKETIME_NO_CACHE", "1".to_owned())
            .with("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned())
            // File timestamps use the real clock.
            .with("NO_FAKE_STAT", "1".to_owned())
    }

    /// Sets it to this many seconds before or after the correct time.
    pub fn set(&self, offset: i64) {
        // Replace the file atomically: concurrent readers see the old time.
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{offset:+}\n")).expect("a file can be written");
        std::fs::rename(&new, self.file()).expect("a file can be renamed");
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}
