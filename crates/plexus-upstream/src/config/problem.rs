//! What is wrong with a file or the folder, told so that it can be repaired.

use std::path::{Path, PathBuf};

pub(super) use plexus_kit::findings::Findings;
pub use plexus_kit::findings::{Cause, Problem};

/// Why something could not be done to the folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("there is no server {name:?} in {}", dir.display())]
    NotFound { name: String, dir: PathBuf },
    #[error("{}", taken(name, file))]
    Exists { name: String, file: PathBuf },
    #[error("{name:?} cannot be the name of a server: it {why}")]
    Name { name: String, why: &'static str },
    #[error("{}", told(.0))]
    Problems(Vec<Problem>),
    /// The text of a file to import.
    #[error("{file} cannot be imported: it {why}")]
    Import { file: String, why: String },
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A name is taken by a server of that name, or by one whose tools would be named alike.
fn taken(name: &str, file: &Path) -> String {
    match file.file_stem().is_some_and(|stem| stem == name) {
        true => format!("there is already a server {name} (its file: {})", file.display()),
        false => {
            format!("{name:?} cannot be added: its tools would have the names of those of {}", file.display())
        }
    }
}

fn told(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
