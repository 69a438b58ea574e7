//! Nothing unfinished stays in the source: what is left to do belongs in an issue.

use crate::tidy::Finding;
use crate::tree::Tree;

/// Put together here so that this file does not find itself.
pub(super) const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!(")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
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

/// Whether the mark stands in the line and is not part of a longer name.
fn has_word(line: &str, mark: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let goes_on = !mark.ends_with('(') && line[at + mark.len()..].starts_with(in_name);
        !goes_on && !line[..at].ends_with(in_name)
    })
}
