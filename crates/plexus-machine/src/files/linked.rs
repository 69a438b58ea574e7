//! Denied files that have more than one name: by any of them they are the same file.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use plexus_kit::glob;
use rustix::fs::Stat;

use crate::policy::PathPattern;

/// Files and folders that are looked at; key rings and the like have far fewer.
const LOOKED_AT: usize = 100_000;

/// By device and number.
#[derive(Debug, Default)]
pub(super) struct Linked(HashSet<(u64, u64)>);

impl Linked {
    /// Looks through everything that is denied.
    pub(super) fn find(denied: &[PathPattern]) -> Self {
        let mut found = Self::default();
        let mut waiting: Vec<PathBuf> =
            denied.iter().flat_map(|pattern| expanded(pattern.as_path())).collect();
        let mut left = LOOKED_AT;
        while let Some(path) = waiting.pop() {
            let Ok(about) = std::fs::symlink_metadata(&path) else { continue };
            if left == 0 {
                tracing::warn!(
                    "there is more in denied folders than is looked through for files with a second name"
                );
                break;
            }
            left -= 1;
            if about.is_dir() {
                let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| entry.path()));
            } else if about.is_file() && about.nlink() > 1 {
                found.0.insert((about.dev(), about.ino()));
            }
        }
        found
    }

    // The width of these differs between systems.
    #[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
    pub(super) fn has(&self, about: &Stat) -> bool {
        self.0.contains(&(about.st_dev as u64, about.st_ino as u64))
    }
}

/// The paths that a pattern stands for now.
pub(crate) fn expanded(pattern: &Path) -> Vec<PathBuf> {
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
