//! Path patterns of a policy, and how they match a real path.

use std::path::{Component, Path, PathBuf};

use plexus_kit::glob;
use serde::{Deserialize, Serialize};

/// A path or a path pattern; covers everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPattern(PathBuf);

impl PathPattern {
    /// Parses a path as a person writes it. Returns `None` if it is not absolute.
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

    /// Wraps a path that contains no symlinks.
    pub(crate) fn real(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path as written, with `~` expanded.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Whether a real path is this path or is below it.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let mut parts = path.components();
        self.0
            .components()
            .all(|pattern_part| parts.next().is_some_and(|part| component_matches(pattern_part, part)))
    }

    /// Whether this path is, or could be according to its pattern, below the folder `path`.
    #[must_use]
    pub fn is_below(&self, path: &Path) -> bool {
        let mut parts = self.0.components();
        path.components()
            .all(|part| parts.next().is_some_and(|pattern_part| component_matches(pattern_part, part)))
            && parts.next().is_some()
    }

    /// Whether this pattern can match more than one path.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        self.0.as_os_str().as_encoded_bytes().contains(&b'*')
    }
}

fn component_matches(pattern_part: Component<'_>, part: Component<'_>) -> bool {
    if pattern_part == part {
        return true;
    }
    match (pattern_part.as_os_str().to_str(), part.as_os_str().to_str()) {
        (Some(pattern_part), Some(part)) => pattern_part.contains('*') && glob::matches(pattern_part, part),
        _ => false,
    }
}
