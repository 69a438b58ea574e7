//! Problems with a file or the folder, worded so that the user can fix them.

use std::path::{Path, PathBuf};

pub(super) use plexus_kit::findings::Findings;
pub use plexus_kit::findings::{Cause, Problem};

/// Why an operation on the folder failed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("there is no server {name:?} in {}", dir.display())]
    NotFound { name: String, dir: PathBuf },
    #[error("{}", name_in_use(name, file))]
    Exists { name: String, file: PathBuf },
    #[error("{name:?} cannot be the name of a server: it {why}")]
    Name { name: String, why: &'static str },
    #[error("{}", join_problems(.0))]
    Problems(Vec<Problem>),
    /// The text of an imported file.
    #[error("{file} cannot be imported: it {why}")]
    Import { file: String, why: String },
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// The message for a name that is in use, either by a server of the same name or by one with the same tool
/// names.
fn name_in_use(name: &str, file: &Path) -> String {
    match file.file_stem().is_some_and(|stem| stem == name) {
        true => format!("there is already a server {name} (its file: {})", file.display()),
        false => {
            format!(
                "{name:?} cannot be added: its tools would have the same names as those of {}",
                file.display()
            )
        }
    }
}

fn join_problems(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
