//! ARCHITECTURE.md is about the tree as it is: its links lead somewhere, and its codemap has every crate, every large
//! folder of a crate, and no module that is gone.

use std::collections::BTreeMap;

use crate::manifest::Manifest;
use crate::tidy::Finding;
use crate::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
/// The codemap names every top-level folder of a crate with more files than this.
const SMALL_FOLDER: usize = 5;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.files.iter().find(|file| file.path == PAGE).and_then(|file| file.text.as_deref())
    else {
        return vec![finding(1, "the page is missing".to_owned(), "write it")];
    };
    let dead = text.lines().enumerate().flat_map(|(index, line)| {
        let dead = targets(line).filter(|target| !exists(tree, target));
        dead.map(move |target| {
            finding(index + 1, format!("`{target}` does not exist"), "link the file that has it now")
        })
    });
    let rows = tree.manifests.iter().flat_map(|member| {
        let row =
            text.lines().enumerate().find(|(_, row)| row.starts_with(&format!("| `{}` |", member.name)));
        row.map_or_else(
            || {
                let wrong = format!("the codemap does not list the crate `{}`", member.name);
                vec![finding(1, wrong, "add a row for it")]
            },
            |(index, row)| check_row(tree, member, index + 1, row),
        )
    });
    dead.chain(rows).collect()
}

/// Compares the row of a crate with the files of the crate.
fn check_row(tree: &Tree, member: &Manifest, line: usize, row: &str) -> Vec<Finding> {
    let sources = format!("{}src/", member.path.trim_end_matches("Cargo.toml"));
    let files: Vec<&str> = tree.files.iter().filter_map(|file| file.path.strip_prefix(&sources)).collect();
    let is_module = |name: &str| {
        files.iter().any(|file| file.split('/').any(|part| part.trim_end_matches(".rs") == name))
    };
    let gone = modules(row).filter(|name| *name != member.name && !is_module(name)).map(|name| {
        finding(line, format!("`{}` has no module `{name}`", member.name), "write the name that it has now")
    });
    let mut folders = BTreeMap::<&str, usize>::new();
    for (folder, _) in files.iter().filter_map(|file| file.split_once('/')) {
        *folders.entry(folder).or_default() += 1;
    }
    let is_named = |folder: &str| {
        let path = format!("{sources}{folder}");
        let is_inside = |target: &str| {
            target.strip_prefix(&path).is_some_and(|rest| matches!(rest, "" | ".rs") || rest.starts_with('/'))
        };
        modules(row).any(|name| name == folder) || targets(row).any(is_inside)
    };
    let unnamed = folders.iter().filter(|(folder, count)| **count > SMALL_FOLDER && !is_named(folder));
    let unnamed = unnamed.map(|(folder, count)| {
        let wrong = format!("the codemap does not name `{sources}{folder}`, which has {count} files");
        finding(line, wrong, "add it to the row of its crate")
    });
    gone.chain(unnamed).collect()
}

/// The module names of a row: the words in backticks without capitals, spaces, digits and punctuation.
fn modules(row: &str) -> impl Iterator<Item = &str> {
    let quoted = row.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/'));
    quoted.filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

/// The targets of a line's links that are paths of this tree.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    links
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

fn exists(tree: &Tree, target: &str) -> bool {
    let inside = format!("{}/", target.trim_end_matches('/'));
    tree.files.iter().any(|file| file.path == target || file.path.starts_with(&inside))
}

fn finding(line: usize, wrong: String, remedy: &str) -> Finding {
    Finding { path: PAGE.to_owned(), line, wrong, remedy: remedy.to_owned() }
}
