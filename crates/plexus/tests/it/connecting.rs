//! `plexus connect`, `disconnect` and `sync` as commands, with agents that are only there to be found.

mod commands;
mod machines;
mod moving;
mod tokens;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plexus_testkit::Plexus;

/// A home with programs that say they are agents.
fn home() -> Plexus {
    let plexus = crate::plexus();
    let programs = Path::new(env!("CARGO_BIN_EXE_plexus")).parent().expect("a folder").display().to_string();
    let path = format!("{programs}:{}:/usr/bin:/bin", plexus.home().join("bin").display());
    let plexus = plexus.with("PATH", path);
    std::fs::create_dir(plexus.home().join("bin")).expect("a folder");
    program(&plexus, "codex", "echo codex-cli 0.166.0");
    program(&plexus, "claude", "echo '2.1.325 (Claude Code)'");
    plexus
}

/// A program on the path.
fn program(plexus: &Plexus, name: &str, does: &str) {
    let file = plexus.home().join("bin").join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{does}\n")).expect("a file");
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
