//! Awkward files of each format: the exact edit or the exact refusal.

mod json;
mod jsonc;
mod property;
mod toml;
mod yaml;

use serde_json::{Value, json};

use super::Syntax;

/// What is put in: what agents get, with a word that needs quotes.
fn ours() -> Value {
    json!({ "command": "/opt/plexus", "args": ["mcp", "--as", "a b"] })
}

/// One file and what becomes of it.
struct Case {
    name: &'static str,
    before: &'static str,
    expected: Expected,
}

enum Expected {
    /// This text. Where a change of somebody else is given, it is made in it by replacing the one with the other, and has to
    /// be what is left of the edit in the end.
    Edit { after: &'static str, change: Option<(&'static str, &'static str)> },
    /// Left as it is, for this reason.
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

/// Tries all cases, and names each that fails.
fn check(syntax: Syntax, path: &[&str], cases: &[Case]) {
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case.name, checked(syntax, path, case).err()?)))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn checked(syntax: Syntax, path: &[&str], case: &Case) -> Result<(), String> {
    let edited = syntax.set(case.before, path, &ours());
    let (after, change) = match (&case.expected, &edited) {
        (Expected::Refusal(why), Err(error)) if error.to_string() == *why => return Ok(()),
        (Expected::Edit { after, change }, Ok(edited)) if edited.text == *after => (after, change),
        _ => return Err(format!("is {edited:#?}")),
    };
    let undo = edited.map_err(|error| error.to_string())?.undo;
    let undone = |text: &str| syntax.undo(text, path, &undo).map_err(|error| error.to_string());
    let left = undone(after)?;
    if left != case.before {
        return Err(format!("taken back, it is {left:?}"));
    }
    if let Some((from, to)) = change {
        assert_eq!(after.matches(from).count(), 1, "{}: {from:?} is not there once", case.name);
        let left = undone(&after.replace(from, to))?;
        if left != case.before.replace(from, to) {
            return Err(format!("with a change of somebody else, taken back, it is {left:?}"));
        }
    }
    Ok(())
}
