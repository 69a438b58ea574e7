//! Allowed dependencies between the crates of the workspace.
//!
//! The table is exhaustive: a crate or an edge that it does not list is a finding. Development-only crates
//! may use anything, and no shipped crate may use them.

use std::collections::BTreeSet;

use crate::manifest::{Dependency, Manifest};
use crate::tidy::Finding;
use crate::tree::Tree;

pub(super) const MAY_USE: [(&str, &[&str]); 13] = [
    ("plexus-proto", &[]),
    ("plexus-kit", &["plexus-proto"]),
    ("plexus-store", &["plexus-proto", "plexus-kit"]),
    ("plexus-auth", &["plexus-proto", "plexus-kit", "plexus-store"]),
    ("plexus-tools", &["plexus-proto", "plexus-kit", "plexus-store", "plexus-auth"]),
    ("plexus-mcp", &["plexus-proto", "plexus-kit", "plexus-store", "plexus-auth", "plexus-tools"]),
    (
        "plexus-upstream",
        &["plexus-proto", "plexus-kit", "plexus-store", "plexus-auth", "plexus-tools", "plexus-mcp"],
    ),
    ("plexus-bridge", &["plexus-proto", "plexus-kit"]),
    ("plexus-machine", &["plexus-proto", "plexus-kit", "plexus-auth", "plexus-tools", "plexus-mcp"]),
    (
        "plexus-node",
        &[
            "plexus-proto",
            "plexus-kit",
            "plexus-store",
            "plexus-auth",
            "plexus-tools",
            "plexus-mcp",
            "plexus-upstream",
            "plexus-bridge",
            "plexus-machine",
        ],
    ),
    (
        "plexus-proxy",
        &[
            "plexus-proto",
            "plexus-kit",
            "plexus-store",
            "plexus-auth",
            "plexus-tools",
            "plexus-mcp",
            "plexus-bridge",
        ],
    ),
    (
        "plexus-hub",
        &[
            "plexus-proto",
            "plexus-kit",
            "plexus-store",
            "plexus-auth",
            "plexus-tools",
            "plexus-mcp",
            "plexus-upstream",
            "plexus-bridge",
            "plexus-machine",
            "plexus-node",
        ],
    ),
    (
        "plexus",
        &[
            "plexus-proto",
            "plexus-kit",
            "plexus-store",
            "plexus-auth",
            "plexus-tools",
            "plexus-mcp",
            "plexus-upstream",
            "plexus-bridge",
            "plexus-machine",
            "plexus-node",
            "plexus-proxy",
            "plexus-hub",
        ],
    ),
];

pub(super) const DEV_ONLY: [&str; 2] = ["plexus-testkit", "xtask"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let shipped = tree.manifests.iter().filter(|manifest| !DEV_ONLY.contains(&manifest.name.as_str()));
    shipped.flat_map(|manifest| check_manifest(tree, manifest)).collect()
}

/// The tables name only crates that exist.
pub(super) fn check_table(tree: &Tree) -> Vec<Finding> {
    let edges = MAY_USE.iter().flat_map(|(name, may_use)| std::iter::once(name).chain(*may_use));
    let names: BTreeSet<&str> = edges.chain(&DEV_ONLY).copied().collect();
    let gone = names.into_iter().filter(|name| tree.manifests.iter().all(|manifest| manifest.name != *name));
    gone.map(|name| Finding {
        path: "xtask/src/tidy/edges.rs".to_owned(),
        line: 1,
        wrong: format!("there is no crate `{name}`"),
        remedy: "remove it from the tables".to_owned(),
    })
    .collect()
}

fn check_manifest(tree: &Tree, manifest: &Manifest) -> Vec<Finding> {
    let name = &manifest.name;
    let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| known == name) else {
        return vec![Finding {
            path: manifest.path.clone(),
            line: 1,
            wrong: format!("crate `{name}` has no entry in the table of crate edges"),
            remedy: "add it to xtask/src/tidy/edges.rs and give the reason in ARCHITECTURE.md".to_owned(),
        }];
    };
    let refused = |dependency: &&Dependency| !may_use.contains(&dependency.package.as_str());
    let internal = manifest.dependencies.iter().filter(|dependency| is_internal(tree, &dependency.package));
    internal.filter(refused).map(|dependency| finding(manifest, dependency)).collect()
}

fn is_internal(tree: &Tree, package: &str) -> bool {
    DEV_ONLY.contains(&package)
        || MAY_USE.iter().any(|(known, _)| *known == package)
        || tree.manifests.iter().any(|manifest| manifest.name == package)
}

fn finding(manifest: &Manifest, dependency: &Dependency) -> Finding {
    let (name, package) = (&manifest.name, &dependency.package);
    let (wrong, remedy) = if DEV_ONLY.contains(&package.as_str()) {
        (
            format!("`{name}` ships with `{package}`, which is for development only"),
            "move it to [dev-dependencies]",
        )
    } else {
        (
            format!("`{name}` may not depend on `{package}`"),
            "move the code to a crate that may, or change xtask/src/tidy/edges.rs and give the reason in ARCHITECTURE.md",
        )
    };
    Finding { path: manifest.path.clone(), line: dependency.line, wrong, remedy: remedy.to_owned() }
}
