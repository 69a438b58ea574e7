//! The profiles of a running hub, reloaded when their files change.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::file::Reader;
use super::folder::{self, Fingerprint};
use super::{ProfileEntry, Profiles, shipped};

/// Cheap to clone; all clones share the same profiles.
#[derive(Clone)]
pub struct LiveProfiles(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    reader: Reader,
    shipped: Profiles,
    current: ArcSwap<Profiles>,
    /// State of the files that `current` was read from. Locked during a reload, so that reloads are
    /// serialized.
    last_fingerprint: Mutex<Fingerprint>,
}

/// Ids of profiles that a reload added, removed or changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProfilesChange {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
}

impl ProfilesChange {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn between(old: &Profiles, new: &Profiles) -> Self {
        let mut change = Self::default();
        for (id, entry) in new.iter() {
            match old.get(id) {
                None => change.added.push(id.to_owned()),
                Some(before) if before != entry => change.changed.push(id.to_owned()),
                Some(_) => {}
            }
        }
        let removed_profiles = old.iter().filter(|(id, _)| new.get(id).is_none());
        change.removed.extend(removed_profiles.map(|(id, _)| id.to_owned()));
        change
    }
}

impl LiveProfiles {
    /// The built-in profiles and those of a folder, which need not exist.
    #[must_use]
    pub fn open(folder: PathBuf) -> Self {
        let reader = Reader::new();
        let shipped = shipped::profiles(&reader);
        let current = ArcSwap::from_pointee(shipped.clone());
        let live =
            Self(Arc::new(Inner { folder, reader, shipped, current, last_fingerprint: Mutex::default() }));
        live.reload();
        live
    }

    /// The current profiles.
    #[must_use]
    pub fn load(&self) -> Arc<Profiles> {
        self.0.current.load_full()
    }

    /// Reloads the profiles if any file has changed.
    pub fn reload(&self) -> ProfilesChange {
        let path = &self.0.folder;
        let mut last_fingerprint = self.0.last_fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
        // Computed before the files are read: later changes are detected by the next reload.
        let now = folder::fingerprint(path);
        if now == *last_fingerprint {
            return ProfilesChange::default();
        }
        let (old, new) = (self.load(), folder::read(path, &self.0.reader, &self.0.shipped));
        *last_fingerprint = now;
        let change = ProfilesChange::between(&old, &new);
        for id in change.added.iter().chain(&change.changed) {
            if let Some(ProfileEntry { profile: Err(problems), .. }) = new.get(id) {
                for problem in problems {
                    tracing::error!(profile = id, "{problem}; tokens of this profile see no tools");
                }
            }
        }
        self.0.current.store(Arc::new(new));
        change
    }
}

impl fmt::Debug for LiveProfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.load().iter().map(|(id, _)| id.to_owned()).collect();
        f.debug_struct("LiveProfiles").field("folder", &self.0.folder).field("ids", &ids).finish()
    }
}
