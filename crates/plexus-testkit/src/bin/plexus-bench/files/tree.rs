//! A file tree like that of a repository: many folders, some ignored ones, some rare words.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Number of files per folder.
pub(super) const FILES: usize = 100;
/// Occurs in four of 500 files, one of each kind.
pub(super) const RARE: &str = "rare_word_4711";

const ENDS: [&str; 4] = ["rs", "py", "md", "ts"];

/// Creates the tree; returns the number of files that are not ignored.
pub(super) fn make(root: &Path, folders: usize) -> Result<usize> {
    std::fs::create_dir_all(root.join(".git")).context("the tree")?;
    std::fs::write(root.join(".gitignore"), "*.log\n/ignored\n").context("the tree")?;
    std::fs::create_dir_all(root.join("ignored"))?;
    let mut files = 0;
    for folder in 0..folders {
        let path = root.join(format!("part{}/module{}/unit{folder}", folder % 10, folder / 10 % 10));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        for file in 0..FILES {
            let end = ENDS[file % ENDS.len()];
            std::fs::write(path.join(format!("file{file}.{end}")), content(folder * FILES + file)?)?;
            files += 1;
        }
        std::fs::write(path.join("trace.log"), RARE)?;
    }
    Ok(files)
}

fn content(number: usize) -> Result<String> {
    let mut text = String::new();
    for line in 0..40 {
        writeln!(
            text,
            "    let value_{line} = compute({number}, {line}); // what it is for, in a few words"
        )?;
    }
    if number % 500 < ENDS.len() {
        writeln!(text, "    // {RARE} is here")?;
    }
    if number.is_multiple_of(700) {
        writeln!(text, "fn handler_{number}_4711() {{\n    return;\n}}")?;
    }
    Ok(text)
}
