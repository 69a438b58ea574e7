use std::path::{Path, PathBuf};

use super::{default_file, reference};
use crate::config::{Config, RawConfig};
use crate::{Environment, env};

const BEGIN: &str = "<!-- settings: generated, see CONTRIBUTING.md -->\n";
const END: &str = "<!-- end of settings -->";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares a committed file with what it should be, or writes it where that was asked for.
#[track_caller]
fn check(path: &Path, wanted: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, wanted).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let name = path.file_name().unwrap().display();
    assert!(committed == wanted, "docs/{name} is stale: run `make generated`");
}

#[test]
fn the_default_file_in_docs_is_up_to_date() {
    check(&docs().join("plexus.toml"), &default_file());
}

#[test]
fn the_reference_in_docs_is_up_to_date() {
    let path = docs().join("configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the beginning of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    check(&path, &format!("{before}{BEGIN}{}{END}{after}", reference()));
}

#[test]
fn the_default_file_says_exactly_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plexus.toml");
    // A key has no space after its mark; what is left is explained.
    let file = default_file();
    let uncommented = file.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c.is_ascii_alphabetic()) => format!("{key}\n"),
        _ => format!("{line}\n"),
    });
    std::fs::write(&path, uncommented.collect::<String>()).unwrap();
    let environment: Environment = [(env::HOME.name.to_owned(), "/h".to_owned())].into_iter().collect();
    let written = Config::load(Some(&path), &environment, RawConfig::default()).unwrap();
    let defaults = Config::load(None, &environment, RawConfig::default()).unwrap();
    for (written, default) in written.settings.iter().zip(defaults.settings.iter()) {
        let key = written.setting.key;
        assert_eq!(written.value, default.value, "{key}");
        assert!(written.origin.to_string().contains("plexus.toml:"), "{key} is not in the file");
    }
}
