//! Errors in user-written files, with the fix for each.

use std::fmt;
use std::path::PathBuf;

use crate::reference::ReferenceError;

/// Category of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The file itself: unreadable, neither JSON nor TOML, or with an invalid name.
    File,
    /// A key or its value.
    Field,
    /// The target of a `${…}` reference does not exist. The file may be correct and its environment
    /// incomplete.
    Missing,
}

/// An error in a file. Its text never contains a value from the file, which may be a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// Path of the field, such as `tools.allow[2]`; empty for the whole file.
    pub field: String,
    /// Continues the sentence after the field name.
    pub what: String,
    pub fix: String,
    pub cause: Cause,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, field, what, fix, .. } = self;
        match field.as_str() {
            "" => write!(f, "{}: {what}; {fix}", file.display()),
            field => write!(f, "{}: `{field}` {what}; {fix}", file.display()),
        }
    }
}

/// Collects the errors and warnings for one file.
#[derive(Debug)]
pub struct Findings {
    pub file: PathBuf,
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
}

impl Findings {
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        Self { file, problems: Vec::new(), warnings: Vec::new() }
    }

    pub fn problem(&mut self, field: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Cause::Field, field, what, fix);
    }

    /// An error concerning the whole file.
    pub fn unusable(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Cause::File, "", what, fix);
    }

    pub fn reference(&mut self, field: &str, error: ReferenceError) {
        let cause = if error.missing { Cause::Missing } else { Cause::Field };
        self.add(cause, field, error.what, error.fix);
    }

    pub fn warn(&mut self, field: &str, message: impl fmt::Display) {
        self.warnings.push(format!("{}: `{field}` {message}", self.file.display()));
    }

    /// Whether the field or a part of it has an error.
    #[must_use]
    pub fn is_broken(&self, field: &str) -> bool {
        let inside = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        self.problems.iter().any(|problem| problem.field.strip_prefix(field).is_some_and(inside))
    }

    /// Turns errors of [`Cause::Missing`] into warnings.
    pub fn excuse_missing(&mut self) {
        let (missing, wrong) =
            std::mem::take(&mut self.problems).into_iter().partition(|p| p.cause == Cause::Missing);
        self.problems = wrong;
        let missing: Vec<Problem> = missing;
        self.warnings.extend(missing.iter().map(Problem::to_string));
    }

    fn add(
        &mut self,
        cause: Cause,
        field: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (file, field) = (self.file.clone(), field.into());
        self.problems.push(Problem { file, field, what: what.into(), fix: fix.into(), cause });
    }
}
