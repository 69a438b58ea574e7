//! Limits the length of a file: a file has one subject, and one that exceeds the limit has several.

use crate::tidy::Finding;
use crate::tree::Tree;

const MAX_LINES: usize = 600;
const MAX_TEST_LINES: usize = 1200;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let limit = if file.is_test { MAX_TEST_LINES } else { MAX_LINES };
        let lines = file.text.lines().count();
        if lines > limit {
            findings.push(Finding {
                path: file.path.to_owned(),
                line: limit + 1,
                wrong: format!("the file has {lines} lines, more than {limit}"),
                remedy: "split it by subject".to_owned(),
            });
        }
    }
    findings
}
