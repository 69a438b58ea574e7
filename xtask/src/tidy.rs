//! `cargo xtask tidy`: rules of this codebase that the compiler does not check.
//!
//! A check is a function from the tree to its findings; it sees every file and modifies none. A finding gives
//! the location, the problem and the remedy.

mod architecture;
mod edges;
mod file_size;
pub(crate) mod growth;
mod leftovers;
mod libraries;
mod module_docs;
mod names;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::tree::Tree;

type Check = fn(&Tree) -> Vec<Finding>;

pub(crate) const CHECKS: [Check; 9] = [
    architecture::check,
    edges::check,
    edges::check_table,
    libraries::check,
    module_docs::check,
    file_size::check,
    growth::check,
    names::check,
    leftovers::check,
];

#[derive(Debug)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    wrong: String,
    remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, wrong, remedy } = self;
        write!(f, "{path}:{line}: {wrong}; {remedy}")
    }
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    CHECKS.iter().flat_map(|check| check(tree)).collect()
}
