//! Denied files that have several hard links and can be reached by any of them.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use plexus_kit::glob;
use rustix::fs::Stat;

use crate::policy::PathPattern;

/// The maximum number of entries that are examined; key rings and similar folders have far fewer.
const MAX_ENTRIES_EXAMINED: usize = 100_000;

/// A set of device and inode numbers.
#[derive(Debug, Default)]
pub(super) struct DeniedInodes(HashSet<(u64, u64)>);

impl DeniedInodes {
    /// Searches all denied paths.
    pub(super) fn find(denied: &[PathPattern]) -> Self {
        let mut found = Self::default();
        let mut waiting: Vec<PathBuf> =
            denied.iter().flat_map(|pattern| matching_paths(pattern.as_path())).collect();
        let mut left = MAX_ENTRIES_EXAMINED;
        while let Some(path) = waiting.pop() {
            let Ok(stat) = std::fs::symlink_metadata(&path) else { continue };
            if left == 0 {
                tracing::warn!(
                    "the denied folders have too many entries to find all hard links to their files"
                );
                break;
            }
            left -= 1;
            if stat.is_dir() {
                let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| entry.path()));
            } else if stat.is_file() && stat.nlink() > 1 {
                found.0.insert((stat.dev(), stat.ino()));
            }
        }
        found
    }

    // The integer types differ between systems.
    #[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
    pub(super) fn has(&self, stat: &Stat) -> bool {
        self.0.contains(&(stat.st_dev as u64, stat.st_ino as u64))
    }
}

/// The existing paths that a pattern matches.
pub(crate) fn matching_paths(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let text = part.as_os_str().to_str().filter(|text| text.contains('*'));
        let Some(text) = text else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let fitting = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| glob::matches(text, name)))
        };
        found = found.into_iter().flat_map(fitting).map(|entry| entry.path()).collect();
    }
    found
}
