//! `plexus connect`, `disconnect` and `sync`, with scripts in place of agents.

mod commands;
mod instructions;
mod moved_servers;
mod tokens;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plexus_testkit::Plexus;

/// A home with programs that report versions of Codex and Claude Code.
fn home() -> Plexus {
    let plexus = crate::plexus();
    let path = format!("{}:/usr/bin:/bin", search_path(&plexus));
    let plexus = plexus.with("PATH", path);
    std::fs::create_dir(plexus.home().join("bin")).expect("a folder");
    program(&plexus, "codex", "echo codex-cli 0.166.0");
    program(&plexus, "claude", "echo '2.1.325 (Claude Code)'");
    plexus
}

/// The folders of the program and of the scripts.
fn search_path(plexus: &Plexus) -> String {
    format!("{}:{}", crate::program_folder(), plexus.home().join("bin").display())
}

/// Adds a shell script to the path.
fn program(plexus: &Plexus, name: &str, script: &str) {
    let file = plexus.home().join("bin").join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("its mode");
}

fn write(plexus: &Plexus, file: &str, text: &str) -> PathBuf {
    let path = plexus.home().join(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, text).expect("a file");
    path
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
