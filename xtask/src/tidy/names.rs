//! Rejects vague names of files and folders: such places collect code that belongs elsewhere.

use std::collections::BTreeSet;

use crate::tidy::Finding;
use crate::tree::Tree;

const VAGUE: [&str; 4] = ["utils", "common", "helpers", "misc"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // A set, since a folder occurs once per file in it.
    let vague: BTreeSet<&str> = tree.files.iter().flat_map(|file| vague_parts(&file.path)).collect();
    vague
        .into_iter()
        .map(|path| Finding {
            path: path.to_owned(),
            line: 1,
            wrong: "the name does not describe the content".to_owned(),
            remedy: "name it after its subject, or move the parts to where they are used".to_owned(),
        })
        .collect()
}

/// The path of the file and of each of its parent folders, if its last component is a vague name.
fn vague_parts(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end]).filter(|part| {
        let name = part.rsplit('/').next().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        VAGUE.contains(&stem.to_ascii_lowercase().as_str())
    })
}
