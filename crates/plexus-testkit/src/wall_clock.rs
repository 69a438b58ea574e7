//! The wall clock of processes, as a test moves it while they run.
//!
//! libfaketime is preloaded into them and reads the offset from a file at each look at the clock, so a jump is seen at once.
//! The clock by which time spans are measured goes on as it is, as on a machine whose date is set.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::pinned::installed;
use crate::process::Plexus;

/// One wall clock, for all processes that were given it.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    folder: TempDir,
}

impl WallClock {
    /// A clock that is right. None where libfaketime is not there, which is said; with `CI=true` that is a failure.
    pub async fn new() -> Option<Self> {
        let library = installed("faketime", &["find"]).await?;
        let clock = Self { library, folder: tempfile::tempdir().expect("a temporary folder") };
        clock.set(0);
        Some(clock)
    }

    /// Everything that is run in this home has this clock.
    #[must_use]
    pub fn of(&self, plexus: Plexus) -> Plexus {
        plexus
            .with("LD_PRELOAD", self.library.display().to_string())
            .with("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string())
            .with("FAKETIME_NO_CACHE", "1".to_owned())
            .with("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned())
            // What files say of their age was written by the clock that was there then.
            .with("NO_FAKE_STAT", "1".to_owned())
    }

    /// Sets it so many seconds before or after the right time.
    pub fn set(&self, offset: i64) {
        // Never half of it: whoever looks meanwhile sees the old time.
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{offset:+}\n")).expect("a file can be written");
        std::fs::rename(&new, self.file()).expect("a file can be renamed");
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}
