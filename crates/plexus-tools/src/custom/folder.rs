//! The folder with the manifests: `NAME.json` or `NAME.toml` in it, or `tool.json` or `tool.toml` in a folder `NAME`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fs_err as fs;
use plexus_kit::Environment;
use plexus_kit::findings::{Findings, Problem};
use plexus_kit::syntax::{Format, read_bounded};

use super::definition::Definition;
use super::ownership;

/// Longest manifest, in bytes.
const MAX_BYTES: u64 = 256 * 1024;
/// The most tools; further ones, by name, are not read.
const MAX_TOOLS: usize = 256;
/// The name of a manifest in its own folder, without the extension.
const MANIFEST_STEM: &str = "tool";

/// The result of reading one manifest.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) tool: Result<Definition, Vec<Problem>>,
}

/// A fingerprint of the manifests that does not require reading them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Snapshot {
    manifests: BTreeMap<PathBuf, ManifestFingerprint>,
    /// Whether the folder could be read or does not exist.
    is_complete: bool,
}

/// One manifest: the name of its tool, its modification time and its size.
type ManifestFingerprint = (String, Option<SystemTime>, u64);

impl Snapshot {
    pub(super) fn of(dir: &Path) -> Self {
        let fingerprint_of = |(name, file, _): (String, PathBuf, Format)| {
            let metadata = fs::metadata(&file).ok();
            let changed = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
            (file, (name, changed, metadata.map_or(0, |metadata| metadata.len())))
        };
        // Checked first, so a readable folder was readable before its files were read.
        let is_complete = match fs::read_dir(dir) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        Self { manifests: files(dir).into_iter().map(fingerprint_of).collect(), is_complete }
    }

    /// Whether certainly no manifest of this name exists.
    pub(super) fn lacks(&self, name: &str) -> bool {
        self.is_complete && !self.manifests.values().any(|(of, ..)| of == name)
    }

    /// The names of tools whose manifests were changed, added or removed.
    pub(super) fn changed_since(&self, before: &Self) -> BTreeSet<String> {
        let other = |one: &Self, other: &Self| -> Vec<String> {
            let differs = |(file, fingerprint): &(&PathBuf, &ManifestFingerprint)| {
                other.manifests.get(*file) != Some(*fingerprint)
            };
            one.manifests.iter().filter(differs).map(|(_, (name, ..))| name.clone()).collect()
        };
        other(self, before).into_iter().chain(other(before, self)).collect()
    }
}

/// Every tool with a manifest, by name.
pub(super) fn read(dir: &Path, environment: &Environment) -> Vec<Entry> {
    let files = files(dir);
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for (name, ..) in &files {
        *count.entry(name.clone()).or_default() += 1;
    }
    if files.len() > MAX_TOOLS {
        tracing::warn!(dir = %dir.display(), "more than {MAX_TOOLS} user-defined tools; the others are not read");
    }
    let guarded = ownership::check_ownership(dir);
    let entries = files.into_iter().take(MAX_TOOLS).map(|(name, file, format)| {
        let tool = match (&guarded, count.get(&name)) {
            (Err((problem, fix)), _) => {
                Err(unusable(&file, format!("is in a folder that {problem}"), fix.clone()))
            }
            (Ok(()), Some(2..)) => {
                let fix = "remove all but one";
                Err(unusable(&file, "is not the only manifest of its name", fix))
            }
            (Ok(()), _) => read_manifest(&name, &file, format, environment),
        };
        Entry { name, file, tool }
    });
    entries.collect()
}

fn read_manifest(
    name: &str,
    file: &Path,
    format: Format,
    environment: &Environment,
) -> Result<Definition, Vec<Problem>> {
    // Its own folder must not be writable for others either.
    for path in [Some(file), file.parent()].into_iter().flatten() {
        ownership::check_ownership(path).map_err(|(problem, fix)| unusable(file, problem, fix))?;
    }
    let text = read_bounded(file, MAX_BYTES).map_err(|(problem, fix)| unusable(file, problem, fix))?;
    let written = format.parse(&text).map_err(|problem| unusable(file, problem, "correct it there"))?;
    Definition::read(name, file, written, environment)
}

fn unusable(file: &Path, problem: impl Into<String>, fix: impl Into<String>) -> Vec<Problem> {
    let mut findings = Findings::new(file.to_owned());
    findings.unusable(problem, fix);
    findings.problems
}

/// The manifests, by name. A missing folder counts as empty.
fn files(dir: &Path) -> Vec<(String, PathBuf, Format)> {
    let mut manifests_found = Vec::new();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.starts_with(['.', '#']) {
            continue;
        }
        if path.is_dir() {
            for format in Format::ALL {
                let file = path.join(format!("{MANIFEST_STEM}.{}", format.ending()));
                // A manifest without readable metadata exists but is invalid.
                if file.try_exists().unwrap_or(true) {
                    manifests_found.push((name.to_owned(), file, format));
                }
            }
            continue;
        }
        let format = path.extension().and_then(|ending| Format::of_ending(ending.to_str()?));
        if let (Some(format), Some(stem)) = (format, path.file_stem().and_then(|stem| stem.to_str())) {
            manifests_found.push((stem.to_owned(), path.clone(), format));
        }
    }
    manifests_found.sort_by(|(a, path_a, _), (b, path_b, _)| (a, path_a).cmp(&(b, path_b)));
    manifests_found
}
