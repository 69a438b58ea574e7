//! Requires every module to open with a `//!` that states its purpose. Tests are exempt.

use crate::tidy::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let modules = tree.rust_files().filter(|file| !file.is_test);
    let undocumented = modules.filter(|file| !opens_with_doc(file.text));
    undocumented
        .map(|file| Finding {
            path: file.path.to_owned(),
            line: 1,
            wrong: "the file does not open with a module doc".to_owned(),
            remedy: "start it with `//!`: its purpose and invariants".to_owned(),
        })
        .collect()
}

fn opens_with_doc(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("//!").is_some_and(|doc| !doc.trim().is_empty())
}
