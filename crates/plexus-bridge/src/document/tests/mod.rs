//! Edge cases of each format, with the exact edit or the exact refusal.

mod json;
mod jsonc;
mod property;
mod toml;
mod yaml;

use serde_json::{Value, json};

use super::Syntax;

/// The inserted entry, as for agents, with an argument that needs quotes.
fn ours() -> Value {
    json!({ "command": "/opt/plexus", "args": ["mcp", "--as", "a b"] })
}

/// A file and the expected result.
struct Case {
    name: &'static str,
    before: &'static str,
    expected: Expected,
}

enum Expected {
    /// The edited text. `change` is a change by another program: after the edit, the first text is replaced by the
    /// second one. It must remain when the edit is undone.
    Edit { after: &'static str, change: Option<(&'static str, &'static str)> },
    /// The file is not changed, for this reason.
    Refusal(&'static str),
}

const fn edit(name: &'static str, before: &'static str, after: &'static str) -> Case {
    Case { name, before, expected: Expected::Edit { after, change: None } }
}

const fn changed(
    name: &'static str,
    before: &'static str,
    after: &'static str,
    change: (&'static str, &'static str),
) -> Case {
    Case { name, before, expected: Expected::Edit { after, change: Some(change) } }
}

const fn refused(name: &'static str, before: &'static str, why: &'static str) -> Case {
    Case { name, before, expected: Expected::Refusal(why) }
}

/// Checks all cases and reports every failed one.
fn check(syntax: Syntax, path: &[&str], cases: &[Case]) {
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case.name, check_case(syntax, path, case).err()?)))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn check_case(syntax: Syntax, path: &[&str], case: &Case) -> Result<(), String> {
    let edited = syntax.set(case.before, path, &ours());
    let (after, change) = match (&case.expected, &edited) {
        (Expected::Refusal(why), Err(error)) if error.to_string() == *why => return Ok(()),
        (Expected::Edit { after, change }, Ok(edited)) if edited.text == *after => (after, change),
        _ => return Err(format!("became {edited:#?}")),
    };
    let undo = edited.map_err(|error| error.to_string())?.undo;
    let undone = |text: &str| syntax.undo(text, path, &undo).map_err(|error| error.to_string());
    let restored = undone(after)?;
    if restored != case.before {
        return Err(format!("undone, it is {restored:?}"));
    }
    if let Some((from, to)) = change {
        assert_eq!(after.matches(from).count(), 1, "{}: {from:?} does not occur exactly once", case.name);
        let restored = undone(&after.replace(from, to))?;
        if restored != case.before.replace(from, to) {
            return Err(format!("undone after a change by somebody else, it is {restored:?}"));
        }
    }
    Ok(())
}
