//! Quotes commands so that they can be copied into a shell.

use std::path::Path;

pub(crate) use plexus_kit::shell::word as name;
use plexus_kit::{Environment, env};

/// The absolute path, quoted for a shell.
pub(crate) fn word(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    name(&path.display().to_string())
}

/// The command that runs this program: `plexus` if it is on the PATH, else its path.
pub(crate) fn plexus(environment: &Environment) -> String {
    let path = environment.get(env::PATH).unwrap_or_default();
    let found = std::env::split_paths(path).any(|folder| folder.join("plexus").is_file());
    match std::env::current_exe() {
        Ok(program) if !found => word(&program),
        _ => "plexus".to_owned(),
    }
}
