//! The dependencies of the workspace members, read from their `Cargo.toml`.
//!
//! A dependency is identified by its package name, even if the manifest renames it, and by its line.
//! Dev-dependencies are ignored, since tests may use anything.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::tree::File;

#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) package: String,
    pub(crate) line: usize,
}

/// Entries of `[workspace.dependencies]` whose name differs from the package name.
type Renames = BTreeMap<String, String>;

/// The manifests of `crates/*` and `xtask`.
pub(crate) fn of_members(files: &[File]) -> Result<Vec<Manifest>> {
    let text_of = |file: &File| file.text.clone().unwrap_or_default();
    let renames = match files.iter().find(|file| file.path == "Cargo.toml") {
        Some(root) => workspace_renames(&text_of(root)).context("Cargo.toml is not a valid manifest")?,
        None => Renames::new(),
    };
    let members = files.iter().filter(|file| is_member_manifest(&file.path));
    members
        .map(|file| {
            parse(&file.path, &text_of(file), &renames)
                .with_context(|| format!("{} is not a valid manifest", file.path))
        })
        .collect()
}

fn is_member_manifest(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>()[..], ["xtask", "Cargo.toml"] | ["crates", _, "Cargo.toml"])
}

fn workspace_renames(text: &str) -> Result<Renames> {
    let root = DeTable::parse(text)?;
    let shared = table(root.get_ref(), "workspace").and_then(|workspace| table(workspace, "dependencies"));
    let renamed = shared.into_iter().flatten().filter_map(|(key, value)| {
        let package = value.get_ref().as_table().and_then(|entry| string(entry, "package"))?;
        Some((key.get_ref().to_string(), package.to_owned()))
    });
    Ok(renamed.collect())
}

fn parse(path: &str, text: &str, renames: &Renames) -> Result<Manifest> {
    let root = DeTable::parse(text)?;
    let root = root.get_ref();
    let name =
        table(root, "package").and_then(|package| string(package, "name")).context("no package name")?;

    let mut dependencies = Vec::new();
    let targets =
        table(root, "target").into_iter().flatten().filter_map(|(_, value)| value.get_ref().as_table());
    for section in std::iter::once(root).chain(targets) {
        for kind in ["dependencies", "build-dependencies"] {
            for (key, value) in table(section, kind).into_iter().flatten() {
                dependencies.push(dependency(text, key.get_ref(), key.span().start, value, renames));
            }
        }
    }
    dependencies.sort_by_key(|dependency| dependency.line);
    Ok(Manifest { path: path.to_owned(), name: name.to_owned(), dependencies })
}

fn dependency(
    text: &str,
    key: &str,
    at: usize,
    value: &Spanned<DeValue<'_>>,
    renames: &Renames,
) -> Dependency {
    let entry = value.get_ref().as_table();
    let inherited = entry.is_some_and(|entry| entry.contains_key("workspace"));
    let package = entry
        .and_then(|entry| string(entry, "package"))
        .or_else(|| renames.get(key).filter(|_| inherited).map(String::as_str))
        .unwrap_or(key);
    Dependency { package: package.to_owned(), line: text[..at].matches('\n').count() + 1 }
}

fn table<'t, 'i>(parent: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    parent.get(key)?.get_ref().as_table()
}

fn string<'t>(parent: &'t DeTable<'_>, key: &str) -> Option<&'t str> {
    parent.get(key)?.get_ref().as_str()
}
