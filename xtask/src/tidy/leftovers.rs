//! Finds marks of unfinished work: open work belongs in an issue.

use crate::tidy::Finding;
use crate::tree::Tree;

/// Concatenated, so that this file does not match itself.
pub(super) const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!(")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Pages may show such a mark, as something to search for.
    for file in tree.files.iter().filter(|file| !file.path.ends_with(".md")) {
        for (index, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            if let Some(mark) = MARKS.iter().find(|mark| has_word(line, mark)) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: index + 1,
                    wrong: format!("`{mark}` is left in the source"),
                    remedy: "do it now, or open an issue and remove the mark".to_owned(),
                });
            }
        }
    }
    findings
}

/// Whether the line contains the mark and not as part of a longer name.
fn has_word(line: &str, mark: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let goes_on = !mark.ends_with('(') && line[at + mark.len()..].starts_with(in_name);
        !goes_on && !line[..at].ends_with(in_name)
    })
}
