//! `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}` references in the texts of a file.
//!
//! [`Resolver::value_of`] is the only place that knows the sources of values; a vault would be another arm of
//! it. `$${` is an escaped `${`. Errors contain the reference, never a value.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::env::{self, Environment};

/// Maximum size of a file in `${file:…}`.
pub const MAX_FILE_BYTES: u64 = 64 * 1024;

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'t> {
    /// Literal text.
    Text(&'t str),
    /// The text between `${` and `}`.
    Reference(&'t str),
    /// A `${` without `}`.
    Open(&'t str),
}

/// Splits a text into its parts.
pub fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find("${") else { return Some(Part::Text(std::mem::take(&mut rest))) };
        if rest[..at].ends_with('$') {
            // The text before, without the `$` that escapes the next one.
            let (before, after) = (&rest[..at - 1], &rest[at..]);
            if before.is_empty() {
                rest = &after[2..];
                return Some(Part::Text("${"));
            }
            rest = &rest[at - 1..];
            return Some(Part::Text(before));
        }
        if at > 0 {
            let before = &rest[..at];
            rest = &rest[at..];
            return Some(Part::Text(before));
        }
        let inner = &rest[2..];
        match inner.find('}') {
            Some(end) => {
                rest = &inner[end + 1..];
                Some(Part::Reference(&inner[..end]))
            }
            None => Some(Part::Open(std::mem::take(&mut rest))),
        }
    })
}

/// The text with references removed.
#[must_use]
pub fn literal(text: &str) -> String {
    parts(text)
        .map(|part| match part {
            Part::Text(text) | Part::Open(text) => text,
            Part::Reference(_) => "",
        })
        .collect()
}

/// Whether a text contains references.
#[must_use]
pub fn contains_reference(text: &str) -> bool {
    parts(text).any(|part| !matches!(part, Part::Text(_)))
}

/// Why a reference could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {fix}")]
pub struct ReferenceError {
    /// Continues the sentence after the field name.
    pub what: String,
    pub fix: String,
    /// Whether the reference is well-formed but its target does not exist.
    pub missing: bool,
}

impl ReferenceError {
    fn malformed(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into(), missing: false }
    }

    fn missing(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into(), missing: true }
    }
}

/// Resolves references.
#[derive(Debug, Clone)]
pub struct Resolver<'e> {
    environment: &'e Environment,
    /// Base of relative paths in `${file:…}`.
    folder: PathBuf,
}

impl<'e> Resolver<'e> {
    #[must_use]
    pub fn new(environment: &'e Environment, folder: impl Into<PathBuf>) -> Self {
        Self { environment, folder: folder.into() }
    }

    /// Resolves every reference in a text.
    pub fn resolve(&self, text: &str) -> Result<String, ReferenceError> {
        let mut whole = String::with_capacity(text.len());
        for part in parts(text) {
            match part {
                Part::Text(text) => whole.push_str(text),
                Part::Reference(reference) => whole.push_str(&self.value_of(reference)?),
                Part::Open(_) => {
                    return Err(ReferenceError::malformed(
                        "has a `${` without a `}`",
                        "close it, or write `$${` for a plain `${`",
                    ));
                }
            }
        }
        Ok(whole)
    }

    /// The value of `source:name`.
    fn value_of(&self, reference: &str) -> Result<String, ReferenceError> {
        match reference.split_once(':') {
            Some(("env", named)) => self.variable(named),
            Some(("file", path)) => self.file(path),
            Some(("secret", _)) => Err(ReferenceError::malformed(
                "uses `${secret:…}`, but vaults are not supported",
                "write `${env:NAME}` or `${file:PATH}`",
            )),
            _ if is_variable_name(reference) => Err(ReferenceError::malformed(
                format!("has `${{{reference}}}`, which names no source"),
                format!("write `${{env:{reference}}}`, or `$${{` for a plain `${{`"),
            )),
            _ => Err(ReferenceError::malformed(
                "has a `${…}` that is neither `${env:NAME}` nor `${file:PATH}`",
                "write one of them, or `$${` for a plain `${`",
            )),
        }
    }

    fn variable(&self, named: &str) -> Result<String, ReferenceError> {
        let (name, default) = match named.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (named, None),
        };
        if !is_variable_name(name) {
            return Err(ReferenceError::malformed(
                "has a `${env:…}` that names no variable",
                "a name has letters, digits and `_`, and a default follows `:-`, as in `${env:NAME:-default}`",
            ));
        }
        if default.is_some_and(|default| default.contains("${")) {
            return Err(ReferenceError::malformed(
                format!("has a reference in the default of `${{env:{name}}}`"),
                "a default is plain text",
            ));
        }
        self.environment.get_by_name(name).or(default).map(str::to_owned).ok_or_else(|| {
            ReferenceError::missing(
                format!("needs the variable {name}, which is not set or empty"),
                format!(
                    "set it where the hub is started and restart the hub, give a default as in \
                     `${{env:{name}:-default}}`, or use `${{file:PATH}}`"
                ),
            )
        })
    }

    fn file(&self, named: &str) -> Result<String, ReferenceError> {
        if named.is_empty() {
            return Err(ReferenceError::malformed(
                "has a `${file:…}` without a path",
                "write `${file:PATH}`",
            ));
        }
        let path = self.folder.join(self.environment.home_path(Path::new(named)));
        read_bounded(&path).map_err(|why| {
            ReferenceError::missing(
                format!("needs the file {}, which {why}", path.display()),
                format!("make it a text file of at most {} KiB that the hub can read", MAX_FILE_BYTES / 1024),
            )
        })
    }
}

/// Reads a file without its final line break, or says why it cannot be used.
fn read_bounded(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "is not readable".to_owned(),
        kind => format!("cannot be read ({kind})"),
    };
    // Opening a pipe may block, and a device may have no end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err("is too long".to_owned());
    }
    let mut text = String::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Whether a shell accepts this as the name of a variable.
#[must_use]
pub fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Environment {
    /// Replaces a leading `~` with the home folder, if there is one.
    #[must_use]
    pub fn home_path(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), self.get(env::HOME)) {
            (Ok(rest), Some(home)) => Path::new(home).join(rest),
            _ => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
