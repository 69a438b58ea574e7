//! Detects the installed release of an agent from the files of its package, without running it.

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;

use super::Agent;
use super::detect::version_in;

/// Where the release is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseSource {
    /// In the `package.json` of this name, in a folder above the program.
    Package(&'static str),
    /// In the path of the program: the component after these two folders.
    PathComponent([&'static str; 2]),
}

/// The number of parent folders of a program searched for its package.
const MAX_PARENT_FOLDERS: usize = 6;
/// The location of a package below such a folder: directly, and as in Electron programs.
const PACKAGE_FILES: [&str; 2] = ["package.json", "resources/app/package.json"];
/// Longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// The version of the agent that this program belongs to; none if its files do not identify it as this agent.
pub(super) fn installed_version(agent: &Agent, program: &Path) -> Option<String> {
    let target = std::fs::canonicalize(program).ok()?;
    let version = agent.releases.iter().find_map(|release| match release {
        ReleaseSource::Package(name) => {
            let above = target.ancestors().skip(1).take(MAX_PARENT_FOLDERS);
            let mut files = above.flat_map(|folder| PACKAGE_FILES.map(|package| folder.join(package)));
            files
                .find_map(|file| read_package(&file).filter(|package| package.name == *name))
                .map(|package| package.version)
        }
        ReleaseSource::PathComponent(folders) => {
            let parts: Vec<&str> = target.iter().map(|part| part.to_str().unwrap_or_default()).collect();
            let position = parts.windows(2).position(|pair| pair == folders)?;
            parts.get(position + 2).map(|part| (*part).to_owned())
        }
    })?;
    // Only a version is shown.
    version_in(&version).filter(|plain| *plain == version)
}

fn read_package(file: &Path) -> Option<Package> {
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
