//! The user-written files in an archive: those of MCP servers and profiles.
//!
//! The same rule applies to writing and restoring. Files that a hub would not read are not transferred
//! between machines, since a file in one of these folders can make the hub start a program.

use std::path::{Component, Path};

use plexus_kit::config::UPSTREAMS_FOLDER;

/// The default folder of MCP servers in a data folder.
pub const SERVERS: &str = UPSTREAMS_FOLDER;
/// The folder of profiles in a data folder.
pub const PROFILES: &str = "profiles";
/// Limits for the size and number of these files; a hub reads no more.
pub const MAX_SETTING: u64 = 256 * 1024;
pub const MAX_SETTINGS: usize = 2_000;

/// Whether this is the path of such a file in a data folder.
#[must_use]
pub fn is_setting(path: &Path) -> bool {
    match parts(path).as_deref() {
        Some([SERVERS, file]) => {
            let ending = Path::new(file).extension().and_then(|ending| ending.to_str());
            is_visible(file) && matches!(ending, Some("json" | "toml"))
        }
        Some([PROFILES, id, "config.json" | "system_prompt.txt" | "subagent_system_prompt.txt"]) => {
            is_visible(id)
        }
        _ => false,
    }
}

/// The components of a relative path without `..`.
pub(super) fn parts(path: &Path) -> Option<Vec<&str>> {
    path.components()
        .map(|part| if let Component::Normal(part) = part { part.to_str() } else { None })
        .collect()
}

/// Excludes files of editors, version control and the hub itself.
fn is_visible(name: &str) -> bool {
    !name.starts_with(['.', '#'])
}
