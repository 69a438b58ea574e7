//! ARCHITECTURE.md is about the tree as it is: its links lead somewhere, and its codemap has every crate.

use crate::tidy::Finding;
use crate::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";

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
    let unlisted = tree.manifests.iter().filter(|member| !text.contains(&format!("| `{}` |", member.name)));
    let unlisted = unlisted.map(|member| {
        finding(1, format!("the codemap does not list the crate `{}`", member.name), "add a row for it")
    });
    dead.chain(unlisted).collect()
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
