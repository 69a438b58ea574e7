//! The argument names of other agents: the table in docs/mcp.md is what the tools accept.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use plexus_machine::tools;
use plexus_tools::{ToolSpec, native};
use serde_json::{Value, json};

use crate::workbench::Workbench;

const HEAD: &str = "| tool | argument | also |\n|---|---|---|\n";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mcp.md")
}

/// The text before the table, the table, and the text after it.
fn parts(page: &str) -> (&str, &str, &str) {
    let section = page.find("## Argument names").expect("a section about argument names");
    let start = section + page[section..].find(HEAD).expect("a table of them");
    let end = start + page[start..].find("\n\n").expect("text after the table") + 1;
    (&page[..start], &page[start..end], &page[end..])
}

fn specs() -> Vec<ToolSpec> {
    tools::specs().into_iter().chain(native::tools().iter().map(|tool| tool.spec().clone())).collect()
}

#[test]
fn docs_list_every_alias() {
    let mut table = HEAD.to_owned();
    for spec in specs() {
        let mut tool = format!("`{}` ", spec.name);
        for alias in spec.handling.aliases {
            let names: Vec<_> = alias.names.iter().map(|name| format!("`{name}`")).collect();
            writeln!(table, "| {tool}| `{}` | {} |", alias.argument, names.join(", ")).unwrap();
            tool.clear();
        }
    }
    let text = std::fs::read_to_string(page()).unwrap();
    let (before, documented, after) = parts(&text);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page(), [before, &table, after].concat()).unwrap();
        return;
    }
    assert_eq!(documented, table, "run make generated");
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DocumentedAlias {
    tool: String,
    argument: String,
    name: String,
}

fn documented() -> Vec<DocumentedAlias> {
    let text = std::fs::read_to_string(page()).unwrap();
    let (mut aliases, mut tool) = (Vec::new(), String::new());
    for row in parts(&text).1[HEAD.len()..].lines() {
        let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let cells: Vec<_> = row.split('|').map(quoted).collect();
        if let Some(name) = cells[1].first() {
            tool.clone_from(name);
        }
        let argument = &cells[2][0];
        aliases.extend(cells[3].iter().map(|name| DocumentedAlias {
            tool: tool.clone(),
            argument: argument.clone(),
            name: name.clone(),
        }));
    }
    aliases
}

/// Valid calls that together have all arguments with aliases.
fn calls() -> Vec<(&'static str, Value)> {
    let edit = json!({ "old": "a", "new": "b", "replace_all": true });
    vec![
        (
            "filesystem",
            json!({
                "action": "grep", "path": "a", "text": "t", "old": "a", "new": "b", "replace_all": true,
                "edits": [edit], "patch": "p", "dry_run": true, "pattern": "x", "ignore_case": true, "context": 1,
                "offset": 1, "limit": 1, "depth": 1, "to": "b", "create_dirs": true,
            }),
        ),
        (
            "terminal",
            json!({
                "action": "list", "command": "true", "cwd": "/", "env": { "A": "b" }, "pty": true, "job": "j",
                "text": "t",
            }),
        ),
        (
            "ssh_exec",
            json!({
                "action": "list", "host": "h", "user": "u", "command": "true", "cwd": "/", "path": "a",
                "remote_path": "b",
            }),
        ),
        (
            "code_exec",
            json!({
                "language": "python", "code": "1", "files": [{ "name": "a", "text": "t" }], "args": ["x"],
                "stdin": "in", "env": { "A": "b" },
            }),
        ),
        ("image_view", json!({ "path": "a.png" })),
        ("image_view", json!({ "url": "http://127.0.0.1:9/a.png" })),
        ("scratchpad", json!({ "action": "list", "section": "s", "content": "c", "session": "another" })),
        ("session_info", json!({ "session": "another" })),
        ("todo", json!({ "action": "list", "text": "t", "id": 1, "session": "another" })),
        ("tool_call", json!({ "name": "system_info", "arguments": {} })),
        ("tool_search", json!({ "query": "files", "limit": 3 })),
    ]
}

/// Renames the argument at a path such as `edits/old`, within a list in its first object. Returns false if there is
/// none.
fn rename(arguments: &mut Value, path: &str, name: &str) -> bool {
    match path.split_once('/') {
        Some((list, rest)) => {
            arguments.pointer_mut(&format!("/{list}/0")).is_some_and(|first| rename(first, rest, name))
        }
        None => {
            let arguments = arguments.as_object_mut().unwrap();
            let value = arguments.remove(path);
            value.map(|value| arguments.insert(name.to_owned(), value)).is_some()
        }
    }
}

#[tokio::test]
async fn call_by_an_alias_is_recorded_as_the_canonical_call() {
    let bench = Workbench::with_native_tools().await;
    let mut untested: BTreeSet<_> = documented().into_iter().collect();
    assert!(!untested.is_empty());
    for (tool, canonical) in calls() {
        let expected = bench.recorded(tool, canonical.clone()).await;
        assert_ne!(expected["outcome"], "invalid_arguments", "{tool}: {expected}");
        if tool != "tool_call" {
            let names =
                |arguments: &Value| arguments.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&expected["arguments"]), names(&canonical), "{tool}");
        }
        for alias in documented().into_iter().filter(|alias| alias.tool == tool) {
            let mut arguments = canonical.clone();
            if rename(&mut arguments, &alias.argument, &alias.name) {
                assert_eq!(bench.recorded(tool, arguments).await, expected, "{alias:?}");
                untested.remove(&alias);
            }
        }
    }
    assert!(untested.is_empty(), "add calls with {untested:?}");
}
