//! What is wrong with a file that a person wrote, told so that it can be repaired.

use std::fmt;
use std::path::PathBuf;

use crate::reference::ReferenceError;

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The file itself: it cannot be read, or is neither JSON nor TOML, or its name cannot be used.
    File,
    /// A key or its value.
    Field,
    /// What a `${…}` names is not there. The file may be right, and its surroundings not ready.
    Missing,
}

/// One thing that is wrong. No text of it repeats a value of the file: it may be a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// Path of the field, such as `tools.allow[2]`; empty for the file as a whole.
    pub field: String,
    /// Goes on after the name of the field.
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

/// Collects what is found in one file.
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

    /// Of the file as a whole.
    pub fn unusable(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Cause::File, "", what, fix);
    }

    pub fn reference(&mut self, field: &str, error: ReferenceError) {
        let cause = if error.missing { Cause::Missing } else { Cause::Field };
        self.add(cause, field, error.what, error.fix);
    }

    pub fn warn(&mut self, field: &str, told: impl fmt::Display) {
        self.warnings.push(format!("{}: `{field}` {told}", self.file.display()));
    }

    /// Whether something is wrong with the field or a part of it.
    #[must_use]
    pub fn is_broken(&self, field: &str) -> bool {
        let inside = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        self.problems.iter().any(|problem| problem.field.strip_prefix(field).is_some_and(inside))
    }

    /// What is missing is only warned about.
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
