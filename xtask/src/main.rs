//! `cargo xtask`: maintenance commands for this workspace that need more than a shell line.
//!
//! Operates on the workspace around the current directory, never on the one it was built from: several clones
//! may share a target folder.

#![expect(clippy::print_stdout, reason = "the output of a command-line program")]

mod manifest;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::tidy::growth;
use crate::tree::Tree;

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run_tidy(),
        ["sizes"] => record_sizes(),
        _ => bail!("usage: cargo xtask tidy | sizes"),
    }
}

fn run_tidy() -> Result<ExitCode> {
    let tree = Tree::load(&current_workspace()?)?;
    let findings = tidy::check(&tree);
    if findings.is_empty() {
        let (crates, files, checks) = (tree.manifests.len(), tree.files.len(), tidy::CHECKS.len());
        println!("tidy: {checks} checks over {crates} crates and {files} files, nothing to fix");
        return Ok(ExitCode::SUCCESS);
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} to fix", findings.len());
    Ok(ExitCode::FAILURE)
}

fn record_sizes() -> Result<ExitCode> {
    let root = current_workspace()?;
    let record = root.join(growth::RECORD);
    let text = growth::render(&Tree::load(&root)?);
    std::fs::write(&record, text).with_context(|| format!("{} cannot be written", record.display()))?;
    println!("sizes: {} is up to date", growth::RECORD);
    Ok(ExitCode::SUCCESS)
}

fn current_workspace() -> Result<PathBuf> {
    let here = std::env::current_dir().context("the current directory cannot be read")?;
    workspace_root(&here)
}

fn workspace_root(start: &Path) -> Result<PathBuf> {
    start
        .ancestors()
        .find(|folder| folder.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not inside the workspace; run this from a clone", start.display()))
}
