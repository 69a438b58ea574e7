//! Errors in profiles and their locations.

use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileProblem {
    pub file: PathBuf,
    /// Such as `enabled_tools[2]`; empty if the error concerns the whole file.
    pub field: String,
    pub message: String,
}

impl fmt::Display for ProfileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "{}: {}", self.file.display(), self.message),
            field => write!(f, "{}: `{field}`: {}", self.file.display(), self.message),
        }
    }
}
