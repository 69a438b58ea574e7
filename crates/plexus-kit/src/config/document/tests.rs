use std::path::{Path, PathBuf};

use super::{default_file, reference};
use crate::config::{Config, RawConfig};
use crate::{Environment, env};

const BEGIN: &str = "<!-- settings: generated, see CONTRIBUTING.md -->\n";
const END: &str = "<!-- end of settings -->";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares a generated file with the committed one, or updates it if `UPDATE_DOCS` is set.
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
fn default_file_in_docs_is_up_to_date() {
    check(&docs().join("plexus.toml"), &default_file());
}

#[test]
fn reference_in_docs_is_up_to_date() {
    let path = docs().join("configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("start marker of the table");
    let (_, after) = rest.split_once(END).expect("end marker of the table");
    check(&path, &format!("{before}{BEGIN}{}{END}{after}", reference()));
}

#[test]
fn default_file_contains_every_default() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plexus.toml");
    // Commented-out keys have no space after `#`; other comments are explanations.
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
