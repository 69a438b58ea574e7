//! Which release of an agent is installed, as the files of its package say; nothing is run.

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;

use super::Agent;
use super::detect::version_in;

/// Where a release is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// In the `package.json` of this name, in a folder above the program.
    Package(&'static str),
    /// By the folder or file that comes after these two folders on the path of the program.
    Below([&'static str; 2]),
}

/// Folders above a program in which its package may begin.
const ABOVE: usize = 6;
/// Where a package is below such a folder: itself, and as programs on Electron have it.
const PACKAGES: [&str; 2] = ["package.json", "resources/app/package.json"];
/// Longest file that is read.
const MOST: u64 = 1 << 20;

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// The version of the agent that this program is of; none where its files do not say that it is this agent.
pub(super) fn installed(agent: &Agent, program: &Path) -> Option<String> {
    let target = std::fs::canonicalize(program).ok()?;
    let version = agent.releases.iter().find_map(|release| match release {
        Release::Package(name) => {
            let above = target.ancestors().skip(1).take(ABOVE);
            let mut files = above.flat_map(|folder| PACKAGES.map(|package| folder.join(package)));
            files
                .find_map(|file| package(&file).filter(|package| package.name == *name))
                .map(|package| package.version)
        }
        Release::Below(folders) => {
            let parts: Vec<&str> = target.iter().map(|part| part.to_str().unwrap_or_default()).collect();
            let at = parts.windows(2).position(|pair| pair == folders)?;
            parts.get(at + 2).map(|part| (*part).to_owned())
        }
    })?;
    // Nothing but a version is shown.
    version_in(&version).filter(|plain| *plain == version)
}

fn package(file: &Path) -> Option<Package> {
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
