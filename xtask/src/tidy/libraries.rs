//! Restrictions on third-party libraries per crate.
//!
//! Confines a protocol, the database and the web framework to one crate each. Like the edges, this applies to
//! shipped code: dev-dependencies and the crate used only in tests are exempt.

use crate::tidy::Finding;
use crate::tree::Tree;

#[derive(Debug)]
enum Rule {
    OnlyIn(&'static str),
    NotIn(&'static [&'static str]),
}

const RULES: [(&str, Rule); 4] = [
    ("rmcp", Rule::OnlyIn("plexus-mcp")),
    ("sqlx", Rule::OnlyIn("plexus-store")),
    (
        "axum",
        Rule::NotIn(&[
            "plexus-proto",
            "plexus-kit",
            "plexus-store",
            "plexus-auth",
            "plexus-tools",
            "plexus-upstream",
        ]),
    ),
    ("tokio", Rule::NotIn(&["plexus-proto"])),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in tree.manifests.iter().filter(|manifest| manifest.name != "plexus-testkit") {
        for dependency in &manifest.dependencies {
            let Some((library, rule)) = RULES.iter().find(|(library, _)| *library == dependency.package)
            else {
                continue;
            };
            let name = manifest.name.as_str();
            let remedy = match rule {
                Rule::OnlyIn(home) if *home != name => {
                    format!("go through `{home}`, the only crate that may")
                }
                Rule::NotIn(closed) if closed.contains(&name) => {
                    format!("move what needs `{library}` to a crate above this one")
                }
                _ => continue,
            };
            findings.push(Finding {
                path: manifest.path.clone(),
                line: dependency.line,
                wrong: format!("`{name}` may not depend on `{library}`"),
                remedy,
            });
        }
    }
    findings
}
