//! TOML. Tables are appended to the text, so existing content keeps its meaning.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, Item, Table};

use super::{
    EditError, Edited, Undo, line_end, line_number, line_start, newline, remove_once, sorted_fields,
};

pub(super) fn value(text: &str) -> Result<Value, EditError> {
    let table: toml::Table =
        toml::from_str(text).map_err(|error| invalid(text, error.span(), error.message()))?;
    serde_json::to_value(table).map_err(|error| EditError::Invalid(error.to_string()))
}

/// The parser's message without the quoted text, which may contain a credential.
fn invalid(text: &str, span: Option<Range<usize>>, message: &str) -> EditError {
    let line = line_number(text, span.map_or(0, |span| span.start));
    let what = message.lines().next().unwrap_or_default().split(['`', ',']).next().unwrap_or_default();
    EditError::Invalid(format!("is not valid TOML: {} on line {line}", what.trim_end()))
}

fn parse(text: &str) -> Result<Document<&str>, EditError> {
    Document::parse(text).map_err(|error| invalid(text, error.span(), error.message()))
}

pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<Edited, EditError> {
    let document = parse(text)?;
    let (Some((key, above)), newline) = (path.split_last(), newline(text)) else {
        return Err(EditError::unsupported("has no place without a name"));
    };
    if let Some(item) = item_at(document.as_item(), path) {
        return replace_value(text, path, item, value);
    }
    let mut parent = document.as_item();
    for (depth, name) in above.iter().enumerate() {
        match parent.get(name) {
            Some(inner) if inner.is_table_like() => parent = inner,
            Some(inner) => {
                let line = line_number(text, inner.span().map_or(0, |span| span.start));
                return Err(EditError::Unsupported(format!(
                    "has a value other than a table for `{name}` on line {line}"
                )));
            }
            None if parent.is_inline_table() => {
                let inner = above[depth + 1..].iter().chain([key]).rev();
                let inner = inner
                    .fold(render_inline(value), |inner, key| format!("{{ {} = {inner} }}", render_key(key)));
                return insert_into_inline_table(text, parent, name, &inner, above.len() - depth);
            }
            // Enclosing tables need no header.
            None => break,
        }
    }
    if parent.is_inline_table() {
        return insert_into_inline_table(text, parent, key, &render_inline(value), 0);
    }
    let Value::Object(_) = value else { return insert_into_table(text, parent, key, value, newline) };
    let mut block = String::new();
    render_table(
        &mut block,
        &path.iter().map(|key| render_key(key)).collect::<Vec<_>>().join("."),
        value,
        newline,
    );
    let lead = match text {
        "" => String::new(),
        _ if text.ends_with('\n') => newline.to_owned(),
        _ => newline.repeat(2),
    };
    let fragment = format!("{lead}{block}");
    Ok(Edited { text: format!("{text}{fragment}"), undo: insertion_undo(0, fragment) })
}

fn insertion_undo(made: usize, fragment: String) -> Undo {
    Undo::Inserted { made, hollow: None, fragment: Some(fragment) }
}

fn item_at<'i>(item: &'i Item, path: &[&str]) -> Option<&'i Item> {
    path.iter().try_fold(item, |item, key| item.get(key))
}

/// Inserts a key and its value as a line below the header of a table.
fn insert_into_table(
    text: &str,
    parent: &Item,
    key: &str,
    value: &Value,
    newline: &str,
) -> Result<Edited, EditError> {
    let header = parent.as_table().filter(|table| !table.is_dotted() && !table.is_implicit());
    let Some(span) = header.and_then(Table::span) else {
        return Err(EditError::unsupported(format!(
            "contains no table with a header in which `{key}` could be added"
        )));
    };
    let position = line_end(text, span.end);
    let lead = if text[..position].ends_with('\n') { "" } else { newline };
    let fragment = format!("{lead}{} = {}{newline}", render_key(key), render_inline(value));
    Ok(Edited {
        text: format!("{}{fragment}{}", &text[..position], &text[position..]),
        undo: insertion_undo(0, fragment),
    })
}

/// Appends a key and its value to an inline table.
fn insert_into_inline_table(
    text: &str,
    parent: &Item,
    key: &str,
    value: &str,
    made: usize,
) -> Result<Edited, EditError> {
    let unclear =
        || EditError::unsupported(format!("has a table in braces to which `{key}` cannot be added"));
    let table = parent.as_inline_table().ok_or_else(unclear)?;
    let span = table.span().ok_or_else(unclear)?;
    let last = table.iter().filter_map(|(_, value)| value.span()).map(|span| span.end).max();
    let (position, fragment) = match last {
        Some(last) => (last, format!(", {} = {value}", render_key(key))),
        None => (span.start + 1, format!(" {} = {value} ", render_key(key))),
    };
    Ok(Edited {
        text: format!("{}{fragment}{}", &text[..position], &text[position..]),
        undo: insertion_undo(made, fragment),
    })
}

fn replace_value(text: &str, path: &[&str], item: &Item, value: &Value) -> Result<Edited, EditError> {
    if let (Some(_), Some(span)) = (item.as_value(), item.span()) {
        let undo = Undo::Replaced { raw: text[span.clone()].to_owned() };
        return Ok(Edited {
            text: format!("{}{}{}", &text[..span.start], render_inline(value), &text[span.end..]),
            undo,
        });
    }
    let regions = regions(text, path)?;
    let [region] = &regions[..] else {
        return Err(EditError::unsupported(
            "contains the entry in several places; merge them, or remove the entry",
        ));
    };
    let raw = text[region.clone()].to_owned();
    let mut block = String::new();
    render_table(
        &mut block,
        &path.iter().map(|key| render_key(key)).collect::<Vec<_>>().join("."),
        value,
        newline(text),
    );
    let text = format!("{}{block}{}", &text[..region.start], &text[region.end..]);
    Ok(Edited { text, undo: Undo::Replaced { raw } })
}

pub(super) fn undo(text: &str, path: &[&str], undo: &Undo) -> Result<String, EditError> {
    match undo {
        Undo::Inserted { fragment, .. } => {
            let cut = fragment.as_deref().and_then(|fragment| remove_once(text, fragment));
            // Keys that an agent has added to our table are removed with it.
            let is_removed = |remaining: &String| {
                value(remaining).is_ok_and(|value| super::value_at(&value, path).is_none())
            };
            match cut.filter(is_removed) {
                Some(remaining) => Ok(remaining),
                None => remove_entry(text, path),
            }
        }
        Undo::Replaced { raw } => {
            let document = parse(text)?;
            let item = item_at(document.as_item(), path);
            if let Some(span) = item.filter(|item| item.is_value()).and_then(Item::span) {
                return Ok(format!("{}{raw}{}", &text[..span.start], &text[span.end..]));
            }
            let regions = regions(text, path)?;
            let first = regions.first().map_or(text.len(), |region| region.start);
            let mut remaining = without_regions(text, &regions);
            remaining.insert_str(first, raw);
            Ok(remaining)
        }
    }
}

fn remove_entry(text: &str, path: &[&str]) -> Result<String, EditError> {
    let document = parse(text)?;
    let in_braces = path
        .iter()
        .enumerate()
        .any(|(depth, _)| item_at(document.as_item(), &path[..depth]).is_some_and(Item::is_inline_table));
    if in_braces {
        return Err(EditError::unsupported(
            "has the entry in a table in braces that was changed since; take it out by hand",
        ));
    }
    let regions = regions(text, path)?;
    let regions: Vec<Range<usize>> =
        regions.into_iter().map(|region| with_blank_line(text, region)).collect();
    Ok(without_regions(text, &regions))
}

/// Includes one blank line before a table.
fn with_blank_line(text: &str, region: Range<usize>) -> Range<usize> {
    let before = &text[..region.start];
    let blank = ["\r\n", "\n"].into_iter().find(|end| {
        before.ends_with(*end)
            && (before.len() == end.len() || before[..before.len() - end.len()].ends_with('\n'))
    });
    region.start - blank.map_or(0, str::len)..region.end
}

fn without_regions(text: &str, regions: &[Range<usize>]) -> String {
    let mut remaining = String::with_capacity(text.len());
    let mut from = 0;
    for region in regions {
        remaining.push_str(&text[from..region.start]);
        from = region.end;
    }
    remaining.push_str(&text[from..]);
    remaining
}

/// The lines that define the value at a path: headers and keys of its tables, in text order.
fn regions(text: &str, path: &[&str]) -> Result<Vec<Range<usize>>, EditError> {
    let document = parse(text)?;
    let unclear = || {
        EditError::unsupported(
            "has the entry in a form that cannot be told apart from the rest; change it by hand",
        )
    };
    let parent = item_at(document.as_item(), &path[..path.len() - 1]).ok_or_else(unclear)?;
    let item = item_at(document.as_item(), path).ok_or_else(unclear)?;
    let mut found = Vec::new();
    match item {
        Item::Table(table) => table_regions(text, table, &mut found).ok_or_else(unclear)?,
        Item::Value(value) => {
            let key = parent.as_table_like().and_then(|table| table.key(path[path.len() - 1]));
            let start = key.and_then(toml_edit::Key::span).ok_or_else(unclear)?.start;
            found.push(whole_lines(text, start..value.span().ok_or_else(unclear)?.end));
        }
        _ => return Err(unclear()),
    }
    found.sort_by_key(|region| region.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for region in found {
        match joined.last_mut() {
            // Comments and blank lines between two of its parts belong to it.
            Some(last) if is_comment_or_blank(&text[last.end..region.start]) => last.end = region.end,
            _ => joined.push(region),
        }
    }
    Ok(joined)
}

fn is_comment_or_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

fn whole_lines(text: &str, span: Range<usize>) -> Range<usize> {
    line_start(text, span.start)..line_end(text, span.end)
}

/// The lines of a table and its subtables.
fn table_regions(text: &str, table: &Table, found: &mut Vec<Range<usize>>) -> Option<()> {
    let own = (!table.is_implicit() && !table.is_dotted()).then(|| table.span()).flatten();
    let mut region = own;
    for (name, item) in table.iter() {
        match item {
            Item::Table(inner) if !inner.is_dotted() => table_regions(text, inner, found)?,
            Item::Value(value) => {
                let key = table.key(name)?.span()?;
                let span = key.start..value.span()?.end;
                match &mut region {
                    Some(region) => region.end = region.end.max(span.end),
                    // Dotted keys, each on its own line.
                    None => found.push(whole_lines(text, span)),
                }
            }
            Item::Table(inner) => table_regions(text, inner, found)?,
            _ => return None,
        }
    }
    found.extend(region.map(|region| whole_lines(text, region)));
    Some(())
}

/// Renders a table with its header and its subtables.
fn render_table(out: &mut String, name: &str, value: &Value, newline: &str) {
    let Value::Object(fields) = value else { return };
    out.push_str(&format!("[{name}]{newline}"));
    let (tables, plain): (Vec<_>, Vec<_>) =
        sorted_fields(fields).into_iter().partition(|(_, value)| value.is_object());
    for (key, value) in plain {
        out.push_str(&format!("{} = {}{newline}", render_key(key), render_inline(value)));
    }
    for (key, value) in tables {
        out.push_str(newline);
        render_table(out, &format!("{name}.{}", render_key(key)), value, newline);
    }
}

fn render_key(key: &str) -> String {
    let plain =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if plain { key.to_owned() } else { render_inline(&Value::from(key)) }
}

fn render_inline(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = sorted_fields(fields)
                .into_iter()
                .map(|(key, value)| format!("{} = {}", render_key(key), render_inline(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(render_inline).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => toml_edit::Value::from(text.as_str()).to_string(),
        other => other.to_string(),
    }
}
