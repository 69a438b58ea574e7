use super::*;
use crate::tree::File;

/// The findings of one check on made-up files, as printed.
fn found(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let files =
        files.iter().map(|(path, text)| File { path: (*path).to_owned(), text: Some((*text).to_owned()) });
    let tree = Tree::new(files.collect()).unwrap();
    check(&tree).iter().map(ToString::to_string).collect()
}

/// Expects one finding, at the given location and containing the given words.
#[track_caller]
fn assert_finds(check: Check, files: &[(&str, &str)], place: &str, words: &str) {
    let findings = found(check, files);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = &findings[0];
    assert!(finding.starts_with(&format!("{place}: ")), "{finding}");
    assert!(finding.contains(words) && finding.contains("; "), "{finding}");
}

#[track_caller]
fn assert_clean(check: Check, files: &[(&str, &str)]) {
    assert_eq!(found(check, files), Vec::<String>::new());
}

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\n{rest}")
}

const KIT: &str = "crates/plexus-kit/Cargo.toml";

#[test]
fn unlisted_edge_is_reported() {
    let upward =
        manifest("plexus-kit", "[dependencies]\nplexus-proto.workspace = true\nplexus-hub.workspace = true");
    assert_finds(edges::check, &[(KIT, &upward)], &format!("{KIT}:5"), "may not depend on `plexus-hub`");

    for section in ["build-dependencies", "target.'cfg(unix)'.dependencies"] {
        let hidden =
            manifest("plexus-kit", &format!("[{section}]\nplexus-hub = {{ path = \"../plexus-hub\" }}"));
        assert_finds(edges::check, &[(KIT, &hidden)], &format!("{KIT}:4"), "may not depend on `plexus-hub`");
    }
}

#[test]
fn listed_edges_and_dev_dependencies_are_allowed() {
    let kit = manifest(
        "plexus-kit",
        "[dependencies]\nplexus-proto.workspace = true\nserde = \"1\"\n[dev-dependencies]\nplexus-testkit.workspace = true",
    );
    let testkit = manifest("plexus-testkit", "[dependencies]\nplexus-hub.workspace = true");
    assert_clean(edges::check, &[(KIT, &kit), ("crates/plexus-testkit/Cargo.toml", &testkit)]);
}

#[test]
fn renamed_dependency_is_reported_by_package_name() {
    let local = manifest("plexus-kit", "[dependencies]\nserver = { package = \"plexus-hub\", path = \"x\" }");
    assert_finds(edges::check, &[(KIT, &local)], &format!("{KIT}:4"), "`plexus-hub`");

    let root = "[workspace.dependencies]\nserver = { package = \"plexus-hub\", path = \"x\" }";
    let inherited = manifest("plexus-kit", "[dependencies.server]\nworkspace = true");
    assert_finds(
        edges::check,
        &[("Cargo.toml", root), (KIT, &inherited)],
        &format!("{KIT}:3"),
        "`plexus-hub`",
    );
}

#[test]
fn shipped_crate_must_not_use_development_crate() {
    for dev_only in ["plexus-testkit", "xtask"] {
        let path = "crates/plexus/Cargo.toml";
        let binary = manifest("plexus", &format!("[dependencies]\n{dev_only}.workspace = true"));
        assert_finds(edges::check, &[(path, &binary)], &format!("{path}:4"), "for development only");
    }
}

#[test]
fn crate_without_entry_is_reported() {
    let path = "crates/plexus-new/Cargo.toml";
    let new = manifest("plexus-new", "");
    assert_finds(edges::check, &[(path, &new)], &format!("{path}:1"), "no entry");
}

#[test]
fn edge_table_is_acyclic() {
    // A crate may only use crates listed above it, so the table cannot contain a cycle.
    let names: Vec<&str> = edges::MAY_USE.iter().map(|(name, _)| *name).collect();
    for (index, (name, may_use)) in edges::MAY_USE.iter().enumerate() {
        for used in *may_use {
            assert!(names[..index].contains(used), "`{name}` may use `{used}`, which is not above it");
        }
    }
}

#[test]
fn restricted_library_is_reported_outside_its_crate() {
    for (name, library) in [
        ("plexus-hub", "rmcp"),
        ("plexus-auth", "sqlx"),
        ("plexus-tools", "axum"),
        ("plexus-proto", "axum"),
        ("plexus-kit", "axum"),
        ("plexus-store", "axum"),
        ("plexus-auth", "axum"),
        ("plexus-proto", "tokio"),
    ] {
        let path = format!("crates/{name}/Cargo.toml");
        let text = manifest(name, &format!("[dependencies]\n{library} = \"1\""));
        let words = format!("`{name}` may not depend on `{library}`");
        assert_finds(libraries::check, &[(&path, &text)], &format!("{path}:4"), &words);
    }
}

#[test]
fn restricted_library_is_allowed_in_its_crate_and_in_tests() {
    let mcp = manifest("plexus-mcp", "[dependencies]\nrmcp = \"1\"\naxum = \"1\"\ntokio = \"1\"");
    let store = manifest("plexus-store", "[dependencies]\nsqlx = \"1\"\ntokio = \"1\"");
    let hub = manifest("plexus-hub", "[dev-dependencies]\nrmcp = \"1\"");
    let testkit = manifest("plexus-testkit", "[dependencies]\nsqlx = \"1\"");
    assert_clean(
        libraries::check,
        &[
            ("crates/plexus-mcp/Cargo.toml", &mcp),
            ("crates/plexus-store/Cargo.toml", &store),
            ("crates/plexus-hub/Cargo.toml", &hub),
            ("crates/plexus-testkit/Cargo.toml", &testkit),
        ],
    );
}

#[test]
fn module_without_doc_is_reported() {
    for text in ["", "use std::fmt;\n//! Too late.\n", "//!\n//! Empty first line.\n", "// Not a doc.\n"] {
        let path = "crates/a/src/outbox.rs";
        assert_finds(module_docs::check, &[(path, text)], "crates/a/src/outbox.rs:1", "module doc");
    }
    let documented = ("crates/a/src/lib.rs", "//! A purpose.\n");
    let tests = [("crates/a/src/outbox/tests.rs", "use super::*;\n"), ("crates/a/tests/it/main.rs", "")];
    assert_clean(module_docs::check, &[documented, tests[0], tests[1]]);
}

#[test]
fn oversized_file_is_reported() {
    let lines = |count: usize| "//\n".repeat(count);
    let (source, tests) = ("crates/a/src/lib.rs", "crates/a/src/tests.rs");
    assert_finds(file_size::check, &[(source, &lines(601))], "crates/a/src/lib.rs:601", "601 lines");
    assert_finds(file_size::check, &[(tests, &lines(1201))], "crates/a/src/tests.rs:1201", "1201 lines");
    let story = "crates/a/tests/it/story.rs";
    assert_clean(
        file_size::check,
        &[(source, &lines(600)), (tests, &lines(1200)), (story, &lines(1200)), ("schema.sql", &lines(5000))],
    );
}

#[test]
fn dead_link_and_unlisted_crate_are_reported() {
    let (kit, page) = (manifest("plexus-kit", ""), "ARCHITECTURE.md");
    let listed = "| `plexus-kit` | [clock](crates/plexus-kit/src) |\nSee [docs](https://example.org).";
    let source = ("crates/plexus-kit/src/lib.rs", "");
    assert_clean(architecture::check, &[(KIT, &kit), source, (page, listed)]);
    assert_finds(architecture::check, &[(KIT, &kit), (page, listed)], "ARCHITECTURE.md:1", "does not exist");
    assert_finds(architecture::check, &[(KIT, &kit), (page, "")], "ARCHITECTURE.md:1", "does not list");
    assert_finds(architecture::check, &[], "ARCHITECTURE.md:1", "missing");
}

#[test]
fn codemap_that_differs_from_the_modules_is_reported() {
    let (page, kit) = ("ARCHITECTURE.md", manifest("plexus-kit", ""));
    let sources = ["lib", "clock", "env/a", "env/b", "env/c", "env/d", "env/e", "env/f"]
        .map(|name| format!("crates/plexus-kit/src/{name}.rs"));
    let check = |row: &str, expected: Option<&str>| {
        let row = format!("| `plexus-kit` | {row} |");
        let mut files: Vec<(&str, &str)> = sources.iter().map(|path| (path.as_str(), "")).collect();
        files.extend([(KIT, kit.as_str()), (page, row.as_str())]);
        match expected {
            Some(words) => assert_finds(architecture::check, &files, "ARCHITECTURE.md:1", words),
            None => assert_clean(architecture::check, &files),
        }
    };
    check("`clock`, `env/`, `Config`, `plexus up`", None);
    check("[environment](crates/plexus-kit/src/env/a.rs)", None);
    check("`env`, `calendar`", Some("no module `calendar`"));
    check("`clock`", Some("does not name `crates/plexus-kit/src/env`, which has 6 files"));
}

#[test]
fn edge_of_a_crate_that_is_gone_is_reported() {
    let names: Vec<&str> = edges::MAY_USE.iter().map(|(name, _)| *name).chain(edges::DEV_ONLY).collect();
    let manifests: Vec<_> =
        names.iter().map(|name| (format!("crates/{name}/Cargo.toml"), manifest(name, ""))).collect();
    let files: Vec<_> = manifests.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_clean(edges::check_table, &files);
    assert_finds(edges::check_table, &files[1..], "xtask/src/tidy/edges.rs:1", "no crate `plexus-proto`");
}

#[test]
fn growth_beyond_the_record_is_reported() {
    let lines = |count: usize| "//\n".repeat(count);
    let files = |source: usize, test: usize| {
        [("crates/a/src/lib.rs", lines(source)), ("crates/a/tests/it/main.rs", lines(test))]
    };
    let recorded = {
        let files = files(420, 10).map(|(path, text)| File { path: path.to_owned(), text: Some(text) });
        growth::render(&Tree::new(files.into()).unwrap())
    };
    let check = |source, test| {
        let [first, second] = files(source, test);
        let files = [(first.0, &*first.1), (second.0, &*second.1), (growth::RECORD, &*recorded)];
        found(growth::check, &files).join("\n")
    };

    assert_eq!(check(450, 250), "", "rounding leaves room");
    assert!(check(451, 10).contains("file `crates/a/src/lib.rs` has grown from 450 to 500 lines"));
    assert!(check(501, 10).contains("crate `a` has grown from 500 to 750 lines"));
    assert!(check(420, 251).contains("crate `a/tests` has grown from 250 to 500 lines"));
    assert_finds(growth::check, &[("crates/a/src/lib.rs", "//\n")], "xtask/sizes.toml:1", "no record");
    assert_finds(growth::check, &[(growth::RECORD, "[crates")], "xtask/sizes.toml:1", "cannot be read");
}

#[test]
fn vague_name_is_reported_once() {
    for (path, place) in [
        ("crates/a/src/utils.rs", "crates/a/src/utils.rs:1"),
        ("crates/a/tests/common/mod.rs", "crates/a/tests/common:1"),
        ("web/src/Helpers.test.ts", "web/src/Helpers.test.ts:1"),
        ("misc/notes.md", "misc:1"),
    ] {
        assert_finds(names::check, &[(path, "")], place, "does not describe");
    }
    assert_finds(names::check, &[("misc/a.md", ""), ("misc/b.md", "")], "misc:1", "does not describe");
    assert_clean(names::check, &[("crates/a/src/commonmark.rs", ""), ("crates/a/src/outbox.rs", "")]);
}

#[test]
fn unfinished_work_is_reported() {
    for mark in leftovers::MARKS {
        let text = format!("fn f() {{\n    // {mark}: later\n}}\n");
        assert_finds(leftovers::check, &[("crates/a/src/lib.rs", &text)], "crates/a/src/lib.rs:2", mark);
        assert_finds(leftovers::check, &[("Makefile", &text)], "Makefile:2", mark);
    }
    let names = format!("const {}_LIST: u8 = 1; // my{}\n", leftovers::MARKS[0], leftovers::MARKS[1]);
    assert_clean(leftovers::check, &[("crates/a/src/lib.rs", &names)]);
}

#[test]
fn invalid_manifest_error_names_the_file() {
    let file = File { path: KIT.to_owned(), text: Some("[package".to_owned()) };
    let error = Tree::new(vec![file]).unwrap_err();
    assert!(format!("{error:#}").starts_with(KIT), "{error:#}");
}
