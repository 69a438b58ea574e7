//! The difference between two definitions for a person to read: texts sentence by sentence, everything else
//! as JSON line by line, with hidden characters made visible.

use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::scan::visible;

const NAME: &str = "name";
/// Lines around a change.
const CONTEXT_LINES: usize = 3;
/// Members shown first; the others follow by name.
const LEADING_MEMBERS: [&str; 6] =
    [NAME, "title", "description", "annotations", "inputSchema", "outputSchema"];

/// Lines that begin with `+`, `-` or a blank. Unchanged lines far from a change are left out, and so is an
/// unchanged name.
pub(super) fn lines(before: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    // Both sides use the same layout, so that an unchanged sentence is the same line.
    let is_long = |member: &str| [before, now].iter().any(|form| has_sentences(form.get(member)));
    let is_shown = |member: &str| member != NAME || before.get(member) != now.get(member);
    let [before, now] = [before, now].map(|form| written(form, is_shown, is_long));
    let [before, now] = [&before, &now].map(|lines| lines.iter().map(String::as_str).collect::<Vec<_>>());
    let diff = TextDiff::from_slices(&before, &now);
    let mut lines = Vec::new();
    for (index, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            lines.push("  …".to_owned());
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            lines.push(format!("{sign} {}", change.value()));
        }
    }
    lines
}

/// A definition as lines: the shown members, with long texts below their names.
fn written(
    form: &Map<String, Value>,
    is_shown: impl Fn(&str) -> bool,
    is_long: impl Fn(&str) -> bool,
) -> Vec<String> {
    let first = LEADING_MEMBERS.iter().filter_map(|member| form.get_key_value(*member));
    let rest = form.iter().filter(|(member, _)| !LEADING_MEMBERS.contains(&member.as_str()));
    let mut lines = Vec::new();
    for (member, value) in first.chain(rest).filter(|(member, _)| is_shown(member)) {
        let shown = visible(member);
        match value {
            Value::String(text) if is_long(member) => {
                lines.push(format!("{shown}:"));
                lines.extend(in_sentences(text).map(|sentence| format!("  {}", visible(sentence))));
            }
            Value::String(text) => lines.push(format!("{shown}: {}", visible(text))),
            value => {
                let json = format!("{shown}: {value:#}");
                lines.extend(json.lines().map(visible));
            }
        }
    }
    lines
}

/// Whether a value is a text of more than one sentence.
fn has_sentences(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| in_sentences(text).nth(1).is_some())
}

/// Unlike `lines()`, this keeps a trailing line break visible.
fn in_sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(sentences)
}

/// The sentences of a line, so that a change in one of them does not mark the whole text as changed.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let end = [". ", "! ", "? "].iter().filter_map(|end| rest.find(end)).min();
        let Some(end) = end else {
            done = true;
            return Some(rest);
        };
        let (sentence, behind) = rest.split_at(end + 1);
        rest = &behind[1..];
        Some(sentence)
    })
}

#[cfg(test)]
mod tests;
