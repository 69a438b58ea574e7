//! Crates and large files may not outgrow the sizes recorded in `xtask/sizes.toml`.
//!
//! The record is a ratchet: `cargo xtask sizes` writes the current sizes, rounded up, so small changes pass and
//! larger growth shows up as a changed line in review.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tidy::Finding;
use crate::tree::Tree;

pub(crate) const RECORD: &str = "xtask/sizes.toml";
const CRATE_STEP: usize = 250;
const FILE_STEP: usize = 50;
/// Files up to this size are not recorded; larger ones are listed one by one.
const LARGE_FILE: usize = 400;

const REMEDY: &str = "make it smaller, or run `cargo xtask sizes` and give the reason in the commit";

/// Lines of Rust, rounded up; `crate/tests` counts the tests of a crate.
type Sizes = BTreeMap<String, usize>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    crates: Sizes,
    files: Sizes,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let recorded = tree.files.iter().find(|file| file.path == RECORD).and_then(|file| file.text.as_deref());
    let recorded = match recorded.map(Record::parse) {
        Some(Ok(recorded)) => recorded,
        Some(Err(error)) => return vec![finding(RECORD, format!("the record cannot be read: {error}"))],
        None => return vec![finding(RECORD, "there is no record of sizes".to_owned())],
    };
    let current = Record::measure(tree);
    let grown = |what: &'static str, current: Sizes, recorded: Sizes| {
        current.into_iter().filter_map(move |(name, lines)| {
            let allowed = recorded.get(&name).copied().unwrap_or_default();
            (lines > allowed).then(|| {
                finding(
                    RECORD,
                    format!("{what} `{name}` has grown from {allowed} to {lines} lines (rounded up)"),
                )
            })
        })
    };
    grown("crate", current.crates, recorded.crates)
        .chain(grown("file", current.files, recorded.files))
        .collect()
}

/// The text of the record for the tree as it is.
pub(crate) fn render(tree: &Tree) -> String {
    let Record { crates, files } = Record::measure(tree);
    let mut text = String::from(
        "# Lines of Rust per crate (tests apart) and per large file, rounded up. Written by `cargo xtask sizes`;\n\
         # `cargo xtask tidy` refuses growth beyond them.\n",
    );
    for (title, sizes) in [("crates", crates), ("files", files)] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n[{title}]");
        for (name, lines) in sizes {
            let _ = writeln!(text, "\"{name}\" = {lines}");
        }
    }
    text
}

impl Record {
    fn measure(tree: &Tree) -> Self {
        let mut record = Self::default();
        for file in tree.rust_files() {
            let lines = file.text.lines().count();
            let mut name = crate_of(file.path).to_owned();
            if file.is_test {
                name.push_str("/tests");
            }
            *record.crates.entry(name).or_default() += lines;
            if lines > LARGE_FILE {
                record.files.insert(file.path.to_owned(), lines.next_multiple_of(FILE_STEP));
            }
        }
        for lines in record.crates.values_mut() {
            *lines = lines.next_multiple_of(CRATE_STEP);
        }
        record
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut table: BTreeMap<String, Sizes> = toml::from_str(text)?;
        let mut take = |title| table.remove(title).unwrap_or_default();
        Ok(Self { crates: take("crates"), files: take("files") })
    }
}

fn crate_of(path: &str) -> &str {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.split_once('/').map_or(path, |(name, _)| name)
}

fn finding(path: &str, wrong: String) -> Finding {
    Finding { path: path.to_owned(), line: 1, wrong, remedy: REMEDY.to_owned() }
}
