//! The input of the checks: every file of the workspace, read once.
//!
//! Paths are relative to the root, use `/` as the separator, and are sorted, so findings come in a stable
//! order. Tests build a tree from made-up files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::manifest::{self, Manifest};

/// Extensions of source files; a file without one (`Makefile`, a script) counts too.
const SOURCE_EXTENSIONS: [&str; 13] =
    ["rs", "md", "toml", "sql", "py", "sh", "js", "ts", "svelte", "css", "html", "yml", "yaml"];

/// Folders without source files of this project, at any depth.
const SKIPPED_FOLDERS: [&str; 2] = [".git", "node_modules"];
/// Skipped folders by path; fuzzer inputs need not even be text.
const SKIPPED_PATHS: [&str; 3] = ["target", "fuzz/corpus", "fuzz/artifacts"];

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    /// Only read for source files.
    pub(crate) text: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    pub(crate) manifests: Vec<Manifest>,
}

/// A Rust file with its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RustFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    /// Whether it is a `tests.rs` or below a `tests` folder.
    pub(crate) is_test: bool,
}

impl Tree {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        Self::new(files)
    }

    pub(crate) fn new(mut files: Vec<File>) -> Result<Self> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let manifests = manifest::of_members(&files)?;
        Ok(Self { files, manifests })
    }

    pub(crate) fn rust_files(&self) -> impl Iterator<Item = RustFile<'_>> {
        self.files.iter().filter(|file| file.path.ends_with(".rs")).filter_map(|file| {
            let text = file.text.as_deref()?;
            let is_test = file.path.split('/').any(|part| part == "tests" || part == "tests.rs");
            Some(RustFile { path: &file.path, text, is_test })
        })
    }
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    let cannot_read = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot_read)? {
        let entry = entry.with_context(cannot_read)?;
        let kind = entry.file_type().with_context(cannot_read)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if kind.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) && !SKIPPED_PATHS.contains(&path.as_str()) {
                walk(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() {
            let text = if is_source(&name) {
                let text = fs::read_to_string(entry.path());
                Some(text.with_context(|| format!("{path} is not valid text"))?)
            } else {
                None
            };
            files.push(File { path, text });
        }
    }
    Ok(())
}

fn is_source(name: &str) -> bool {
    match Path::new(name).extension() {
        Some(extension) => SOURCE_EXTENSIONS.iter().any(|known| extension == *known),
        None => !name.starts_with('.'),
    }
}
