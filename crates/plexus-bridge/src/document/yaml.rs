//! YAML, limited to settings files: one document with a mapping at the top.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use super::{
    EditError, Edited, MAX_DEPTH, Undo, line_end, line_number, line_start, newline, remove_once,
    sorted_fields,
};
use crate::confined_path::hash;

/// A node and its byte range.
struct Node {
    kind: Kind,
    start: usize,
    /// The end, without trailing white space and comments.
    end: usize,
    /// The number of its anchor; 0 for none.
    anchor: usize,
}

enum Kind {
    Scalar {
        text: String,
        plain: bool,
    },
    /// An alias of this anchor.
    Alias(usize),
    Sequence(Vec<Node>),
    Mapping {
        fields: Vec<Field>,
        in_braces: bool,
    },
}

impl Node {
    fn key(&self) -> &str {
        match &self.kind {
            Kind::Scalar { text, .. } => text,
            _ => "",
        }
    }

    fn value(&self) -> Value {
        self.value_with_anchors(&mut HashMap::new())
    }

    /// An alias is represented by the fingerprint of its target: it changes with the target, and repeated aliases do
    /// not multiply the size.
    fn value_with_anchors(&self, anchor_hashes: &mut HashMap<usize, String>) -> Value {
        let value = match &self.kind {
            Kind::Scalar { text, plain: false } => Value::String(text.clone()),
            Kind::Scalar { text, plain: true } => plain(text),
            Kind::Alias(anchor) => {
                Value::String(format!("*{}", anchor_hashes.get(anchor).map_or("", String::as_str)))
            }
            Kind::Sequence(items) => {
                Value::Array(items.iter().map(|item| item.value_with_anchors(anchor_hashes)).collect())
            }
            Kind::Mapping { fields, .. } => {
                let mut object = Map::new();
                for (key, value) in fields {
                    let key = match key.value_with_anchors(anchor_hashes) {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    object.insert(key, value.value_with_anchors(anchor_hashes));
                }
                Value::Object(object)
            }
        };
        if self.anchor != 0 {
            anchor_hashes.insert(self.anchor, hash(value.to_string().as_bytes()));
        }
        value
    }
}

fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => text.parse::<Number>().map_or_else(|_| Value::String(text.to_owned()), Value::Number),
    }
}

pub(super) fn value(text: &str) -> Result<Value, EditError> {
    Ok(parse(text)?.map_or(Value::Null, |root| root.value()))
}

/// The open collections during parsing.
struct OpenCollection {
    node: Node,
    key: Option<Node>,
}

fn parse(text: &str) -> Result<Option<Node>, EditError> {
    // The parser reports character positions.
    let mut bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    bytes.push(text.len());
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(text.len());
    let position = |span: &Span| (byte(span.start.index()), byte(span.end.index()));
    let (mut open, mut root): (Vec<OpenCollection>, Option<Node>) = (Vec::new(), None);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let line = error.marker().line();
            EditError::Invalid(format!("is not valid YAML: {} on line {line}", error.info()))
        })?;
        let (start, end) = position(&span);
        let done = match event {
            Event::Scalar(value, style, anchor, _) => {
                let end = text[..end].trim_end().len().max(start);
                let plain = style == ScalarStyle::Plain;
                let mut value = value.into_owned();
                // At the end of a file without a final line end, a block scalar would gain one from the insertion.
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) && end == text.len() {
                    value.truncate(value.trim_end_matches('\n').len());
                }
                Some(Node { kind: Kind::Scalar { text: value, plain }, start, end, anchor })
            }
            Event::Alias(anchor) => Some(Node { kind: Kind::Alias(anchor), start, end, anchor: 0 }),
            Event::SequenceStart(anchor, ..) | Event::MappingStart(anchor, ..) => {
                if open.len() >= MAX_DEPTH {
                    return Err(EditError::unsupported(format!("is nested deeper than {MAX_DEPTH} levels")));
                }
                // The span may start at an anchor or a tag.
                let in_braces = &text[start..end] == "{";
                let kind = match event {
                    Event::SequenceStart(..) => Kind::Sequence(Vec::new()),
                    _ => Kind::Mapping { fields: Vec::new(), in_braces },
                };
                open.push(OpenCollection { node: Node { kind, start, end, anchor }, key: None });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|closed| {
                // The end of a block may be reported as the start of the next node.
                let closes = text[start..].starts_with(['}', ']']);
                let end = if closes { start + 1 } else { closed.node.end };
                Node { end, ..closed.node }
            }),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(EditError::unsupported("contains more than one document"));
            }
            _ => None,
        };
        let Some(node) = done else { continue };
        let Some(parent) = open.last_mut() else {
            root = Some(node);
            continue;
        };
        parent.node.end = parent.node.end.max(node.end);
        match (&mut parent.node.kind, parent.key.take()) {
            (Kind::Sequence(items), _) => items.push(node),
            (Kind::Mapping { fields, .. }, Some(key)) => fields.push((key, node)),
            _ => parent.key = Some(node),
        }
    }
    Ok(root.filter(|root| !matches!(&root.kind, Kind::Scalar { text, plain: true } if text.is_empty())))
}

/// A key and its value.
type Field = (Node, Node);

/// The entries of a mapping, and whether it is in flow style.
fn fields<'n>(node: &'n Node, name: &str, text: &str) -> Result<(&'n [Field], bool), EditError> {
    match &node.kind {
        Kind::Mapping { fields, in_braces } => Ok((fields, *in_braces)),
        _ => {
            let line = line_number(text, node.start);
            Err(EditError::Unsupported(format!(
                "has a value other than a mapping for `{name}` on line {line}"
            )))
        }
    }
}

fn field<'n>(fields: &'n [Field], key: &str, text: &str) -> Result<Option<&'n Field>, EditError> {
    let mut same = fields.iter().filter(|(name, _)| name.key() == key);
    let first = same.next();
    match same.next() {
        None => Ok(first),
        Some((again, _)) => {
            let line = line_number(text, again.start);
            Err(EditError::Unsupported(format!(
                "has the key `{key}` twice, again on line {line}; remove one of them"
            )))
        }
    }
}

pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<Edited, EditError> {
    let newline = newline(text);
    let Some(root) = parse(text)? else {
        return Ok(append(text, path, value, 0, path.len() - 1, newline));
    };
    let mut node = &root;
    for (depth, key) in path.iter().enumerate() {
        let above = if depth == 0 { "the top" } else { path[depth - 1] };
        let (children, in_braces) = fields(node, above, text)?;
        let indent = children.first().map(|(key, _)| column(text, key.start));
        match field(children, key, text)? {
            Some((_, inner)) if depth + 1 == path.len() => return replace_value(text, inner, value),
            // No value after the colon.
            Some((name, inner)) if inner.value().is_null() && !matches!(inner.kind, Kind::Mapping { .. }) => {
                if inner.end > inner.start {
                    return Err(EditError::Unsupported(format!(
                        "has a value other than a mapping for `{key}`"
                    )));
                }
                let indent = column(text, name.start) + 2;
                return Ok(insert_below(text, name.end, indent, &path[depth + 1..], value, newline));
            }
            Some((_, inner)) => node = inner,
            None if in_braces => {
                let more = if children.is_empty() { "" } else { ", " };
                let entry = path[depth + 1..].iter().rev().fold(value.clone(), |inner, key| {
                    Value::Object(Map::from_iter([((*key).to_owned(), inner)]))
                });
                // JSON is valid YAML.
                let fragment = format!("{}: {entry}{more}", Value::from(*key));
                let position = node.start + 1;
                let undo = insertion_undo(path.len() - 1 - depth, fragment.clone());
                return Ok(Edited {
                    text: format!("{}{fragment}{}", &text[..position], &text[position..]),
                    undo,
                });
            }
            None if depth == 0 => {
                return Ok(append(text, path, value, indent.unwrap_or(0), path.len() - 1, newline));
            }
            // Directly below the key, so comments stay with their entries.
            None => {
                let parent = parent_line(text, &root, &path[..depth])?;
                return Ok(insert_below(text, parent, indent.unwrap_or(2), &path[depth..], value, newline));
            }
        }
    }
    Err(EditError::unsupported("has no place without a name"))
}

/// The end of the key of an existing mapping.
fn parent_line(text: &str, root: &Node, path: &[&str]) -> Result<usize, EditError> {
    let (mut node, mut end) = (root, 0);
    for key in path {
        let found = field(fields(node, key, text)?.0, key, text)?;
        let (name, inner) = found.ok_or_else(|| EditError::unsupported(format!("has no `{key}`")))?;
        (node, end) = (inner, name.end);
    }
    Ok(end)
}

fn insertion_undo(made: usize, fragment: String) -> Undo {
    Undo::Inserted { made, hollow: None, fragment: Some(fragment) }
}

fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

fn append(text: &str, path: &[&str], value: &Value, indent: usize, made: usize, newline: &str) -> Edited {
    let lead = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let fragment = format!("{lead}{}", render_block(path, value, indent, newline));
    Edited { text: format!("{text}{fragment}"), undo: insertion_undo(made, fragment) }
}

/// Inserts an entry on the lines after a key.
fn insert_below(
    text: &str,
    key: usize,
    indent: usize,
    path: &[&str],
    value: &Value,
    newline: &str,
) -> Edited {
    let position = line_end(text, key);
    let lead = if text[..position].ends_with('\n') { "" } else { newline };
    let fragment = format!("{lead}{}", render_block(path, value, indent, newline));
    let text = format!("{}{fragment}{}", &text[..position], &text[position..]);
    Edited { text, undo: insertion_undo(path.len() - 1, fragment) }
}

fn replace_value(text: &str, node: &Node, value: &Value) -> Result<Edited, EditError> {
    let raw = text[node.start..node.end].to_owned();
    Ok(Edited {
        text: format!("{}{value}{}", &text[..node.start], &text[node.end..]),
        undo: Undo::Replaced { raw },
    })
}

pub(super) fn undo(text: &str, path: &[&str], undo: &Undo) -> Result<String, EditError> {
    let Some(root) = parse(text)? else { return Ok(text.to_owned()) };
    let (made, fragment) = match undo {
        Undo::Inserted { made, fragment, .. } => (*made, fragment.as_deref().unwrap_or_default()),
        Undo::Replaced { raw } => {
            let mut node = &root;
            for key in path {
                match field(fields(node, key, text)?.0, key, text)? {
                    Some((_, inner)) => node = inner,
                    None => return Ok(text.to_owned()),
                }
            }
            return Ok(format!("{}{raw}{}", &text[..node.start], &text[node.end..]));
        }
    };
    let is_removed =
        |remaining: &String| value(remaining).is_ok_and(|value| super::value_at(&value, path).is_none());
    if let Some(remaining) = remove_once(text, fragment).filter(is_removed) {
        return Ok(remaining);
    }
    // Another program has rewritten it.
    let (mut node, mut cut) = (&root, None);
    for (depth, key) in path.iter().enumerate() {
        let (children, in_braces) = fields(node, key, text)?;
        if in_braces {
            return Err(EditError::unsupported(
                "has the entry in braces that were changed since; take it out by hand",
            ));
        }
        let Some((name, inner)) = field(children, key, text)? else { return Ok(text.to_owned()) };
        // A mapping created for the entry is removed if it has no other content.
        let is_only_field = children.len() == 1 && depth > 0 && depth >= path.len() - made;
        if cut.is_none() || !is_only_field {
            cut = Some(line_start(text, name.start)..line_end(text, inner.end.max(name.end)));
        }
        node = inner;
    }
    let Some(cut) = cut else { return Ok(text.to_owned()) };
    Ok(format!("{}{}", &text[..cut.start], &text[cut.end..]))
}

/// Renders an entry in block style.
fn render_block(path: &[&str], value: &Value, indent: usize, newline: &str) -> String {
    let Some((key, inner)) = path.split_first() else { return render_lines(value, indent, newline) };
    let on_lines = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    let after_colon = match inner {
        [] if !on_lines => format!(" {}{newline}", render_scalar(value)),
        _ => format!("{newline}{}", render_block(inner, value, indent + 2, newline)),
    };
    format!("{:indent$}{}:{after_colon}", "", render_scalar(&Value::from(*key)))
}

fn render_lines(value: &Value, indent: usize, newline: &str) -> String {
    match value {
        Value::Object(fields) => sorted_fields(fields)
            .into_iter()
            .map(|(key, value)| render_block(&[key], value, indent, newline))
            .collect(),
        Value::Array(items) => items
            .iter()
            // Lists use the indentation style of the program that owns these files.
            .map(|item| {
                format!("{:width$}- {}{newline}", "", render_scalar(item), width = indent.saturating_sub(2))
            })
            .collect(),
        other => format!("{:indent$}{}{newline}", "", render_scalar(other)),
    }
}

/// A plain scalar if it is unambiguous, else a quoted one.
fn render_scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
        && plain(text).is_string()
        && !["yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if safe { text.clone() } else { Value::from(text.as_str()).to_string() }
}
