//! Paths of a policy, and how a real path compares with them.

use std::path::{Component, Path, PathBuf};

use plexus_kit::glob;
use serde::{Deserialize, Serialize};

/// A file or folder, or several by a pattern; with everything that is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPattern(PathBuf);

impl PathPattern {
    /// What a person wrote; none where it is no full path.
    pub(super) fn parse(text: &str, home: &Path) -> Option<Self> {
        let path = match text.strip_prefix('~') {
            Some("") => home.to_owned(),
            Some(rest) => home.join(rest.strip_prefix('/')?),
            None => PathBuf::from(text),
        };
        let is_plain = path.is_absolute()
            && !text.contains('\0')
            && path.components().all(|part| !matches!(part, Component::ParentDir | Component::CurDir));
        is_plain.then(|| Self(path.components().collect()))
    }

    /// Of a path without links in it.
    pub(crate) fn real(path: PathBuf) -> Self {
        Self(path)
    }

    /// As it was written, without `~`.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Whether a real path is this, or in it.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let mut parts = path.components();
        self.0.components().all(|wanted| parts.next().is_some_and(|part| same(wanted, part)))
    }

    /// Whether this is in the folder `path`, or may be by its pattern.
    #[must_use]
    pub fn is_below(&self, path: &Path) -> bool {
        let mut parts = self.0.components();
        path.components().all(|part| parts.next().is_some_and(|wanted| same(wanted, part)))
            && parts.next().is_some()
    }

    /// Whether it stands for more than one path.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        self.0.as_os_str().as_encoded_bytes().contains(&b'*')
    }
}

fn same(wanted: Component<'_>, part: Component<'_>) -> bool {
    if wanted == part {
        return true;
    }
    match (wanted.as_os_str().to_str(), part.as_os_str().to_str()) {
        (Some(wanted), Some(part)) => wanted.contains('*') && glob::matches(wanted, part),
        _ => false,
    }
}
