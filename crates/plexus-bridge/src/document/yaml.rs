//! YAML, as far as settings are written in it: one document with a mapping at its top.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use super::{
    DEEPEST, EditError, Edited, Undo, cut_once, in_order, line_end, line_number, line_start, newline,
};
use crate::place::hash;

/// A part of the text, with the bytes that it is made of.
struct Node {
    kind: Kind,
    start: usize,
    /// Behind the last byte that is not white space or a comment.
    end: usize,
    /// What it is called where other parts stand for it; 0: it has no name.
    anchor: usize,
}

enum Kind {
    Scalar {
        text: String,
        plain: bool,
    },
    /// Stands for the part of this anchor.
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
        self.valued(&mut HashMap::new())
    }

    /// What stands for another part has the print of that: it is another value when that part is, and takes no more room however
    /// often it stands there.
    fn valued(&self, prints: &mut HashMap<usize, String>) -> Value {
        let value = match &self.kind {
            Kind::Scalar { text, plain: false } => Value::String(text.clone()),
            Kind::Scalar { text, plain: true } => plain(text),
            Kind::Alias(anchor) => {
                Value::String(format!("*{}", prints.get(anchor).map_or("", String::as_str)))
            }
            Kind::Sequence(items) => Value::Array(items.iter().map(|item| item.valued(prints)).collect()),
            Kind::Mapping { fields, .. } => {
                let mut object = Map::new();
                for (key, value) in fields {
                    let key = match key.valued(prints) {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    object.insert(key, value.valued(prints));
                }
                Value::Object(object)
            }
        };
        if self.anchor != 0 {
            prints.insert(self.anchor, hash(value.to_string().as_bytes()));
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

/// What is open while the text is read.
struct Open {
    node: Node,
    key: Option<Node>,
}

fn parse(text: &str) -> Result<Option<Node>, EditError> {
    // The parser counts characters.
    let mut bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    bytes.push(text.len());
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(text.len());
    let place = |span: &Span| (byte(span.start.index()), byte(span.end.index()));
    let (mut open, mut root): (Vec<Open>, Option<Node>) = (Vec::new(), None);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let line = error.marker().line();
            EditError::Invalid(format!("is not valid YAML: {} on line {line}", error.info()))
        })?;
        let (start, end) = place(&span);
        let done = match event {
            Event::Scalar(value, style, anchor, _) => {
                let end = text[..end].trim_end().len().max(start);
                let plain = style == ScalarStyle::Plain;
                let mut value = value.into_owned();
                // Without a line end at the end of the file it has none either, and would get one from ours.
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) && end == text.len() {
                    value.truncate(value.trim_end_matches('\n').len());
                }
                Some(Node { kind: Kind::Scalar { text: value, plain }, start, end, anchor })
            }
            Event::Alias(anchor) => Some(Node { kind: Kind::Alias(anchor), start, end, anchor: 0 }),
            Event::SequenceStart(anchor, ..) | Event::MappingStart(anchor, ..) => {
                if open.len() >= DEEPEST {
                    return Err(EditError::unclear(format!("is nested deeper than {DEEPEST} levels")));
                }
                // The words of an anchor or a tag may be what is given here.
                let in_braces = &text[start..end] == "{";
                let kind = match event {
                    Event::SequenceStart(..) => Kind::Sequence(Vec::new()),
                    _ => Kind::Mapping { fields: Vec::new(), in_braces },
                };
                open.push(Open { node: Node { kind, start, end, anchor }, key: None });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|closed| {
                // That of a block is where the next thing begins, and may be given as a span up to there.
                let closes = text[start..].starts_with(['}', ']']);
                let end = if closes { start + 1 } else { closed.node.end };
                Node { end, ..closed.node }
            }),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(EditError::unclear("holds more than one document"));
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

/// The key and what is behind it.
type Field = (Node, Node);

/// What is in a mapping, and whether it is written in braces.
fn fields<'n>(node: &'n Node, name: &str, text: &str) -> Result<(&'n [Field], bool), EditError> {
    match &node.kind {
        Kind::Mapping { fields, in_braces } => Ok((fields, *in_braces)),
        _ => {
            let line = line_number(text, node.start);
            Err(EditError::Unclear(format!("has no mapping behind `{name}` on line {line}")))
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
            Err(EditError::Unclear(format!(
                "has the key `{key}` twice, again on line {line}; remove one of them"
            )))
        }
    }
}

pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<Edited, EditError> {
    let newline = newline(text);
    let Some(root) = parse(text)? else {
        return Ok(appended(text, path, value, 0, path.len() - 1, newline));
    };
    let mut node = &root;
    for (depth, key) in path.iter().enumerate() {
        let above = if depth == 0 { "the top" } else { path[depth - 1] };
        let (children, in_braces) = fields(node, above, text)?;
        let indent = children.first().map(|(key, _)| column(text, key.start));
        match field(children, key, text)? {
            Some((_, inner)) if depth + 1 == path.len() => return replaced(text, inner, value),
            // Nothing behind the colon.
            Some((name, inner)) if inner.value().is_null() && !matches!(inner.kind, Kind::Mapping { .. }) => {
                if inner.end > inner.start {
                    return Err(EditError::Unclear(format!("has no mapping behind `{key}`")));
                }
                let indent = column(text, name.start) + 2;
                return Ok(below(text, name.end, indent, &path[depth + 1..], value, newline));
            }
            Some((_, inner)) => node = inner,
            None if in_braces => {
                let more = if children.is_empty() { "" } else { ", " };
                let entry = path[depth + 1..].iter().rev().fold(value.clone(), |inner, key| {
                    Value::Object(Map::from_iter([((*key).to_owned(), inner)]))
                });
                // What is JSON is YAML too.
                let fragment = format!("{}: {entry}{more}", Value::from(*key));
                let place = node.start + 1;
                let undo = inserted(path.len() - 1 - depth, fragment.clone());
                return Ok(Edited { text: format!("{}{fragment}{}", &text[..place], &text[place..]), undo });
            }
            None if depth == 0 => {
                return Ok(appended(text, path, value, indent.unwrap_or(0), path.len() - 1, newline));
            }
            // Right below the key, so that a comment stays with what it is about.
            None => {
                let parent = parent_line(text, &root, &path[..depth])?;
                return Ok(below(text, parent, indent.unwrap_or(2), &path[depth..], value, newline));
            }
        }
    }
    Err(EditError::unclear("has no place without a name"))
}

/// Where the key of a mapping ends that is there.
fn parent_line(text: &str, root: &Node, path: &[&str]) -> Result<usize, EditError> {
    let (mut node, mut end) = (root, 0);
    for key in path {
        let found = field(fields(node, key, text)?.0, key, text)?;
        let (name, inner) = found.ok_or_else(|| EditError::unclear(format!("has no `{key}`")))?;
        (node, end) = (inner, name.end);
    }
    Ok(end)
}

fn inserted(made: usize, fragment: String) -> Undo {
    Undo::Inserted { made, hollow: None, fragment: Some(fragment) }
}

fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

fn appended(text: &str, path: &[&str], value: &Value, indent: usize, made: usize, newline: &str) -> Edited {
    let lead = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let fragment = format!("{lead}{}", block(path, value, indent, newline));
    Edited { text: format!("{text}{fragment}"), undo: inserted(made, fragment) }
}

/// Puts an entry on the lines behind the one that ends with a key.
fn below(text: &str, key: usize, indent: usize, path: &[&str], value: &Value, newline: &str) -> Edited {
    let place = line_end(text, key);
    let lead = if text[..place].ends_with('\n') { "" } else { newline };
    let fragment = format!("{lead}{}", block(path, value, indent, newline));
    let text = format!("{}{fragment}{}", &text[..place], &text[place..]);
    Edited { text, undo: inserted(path.len() - 1, fragment) }
}

fn replaced(text: &str, node: &Node, value: &Value) -> Result<Edited, EditError> {
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
    let gone = |left: &String| value(left).is_ok_and(|value| super::at(&value, path).is_none());
    if let Some(left) = cut_once(text, fragment).filter(gone) {
        return Ok(left);
    }
    // Somebody has written it anew.
    let (mut node, mut cut) = (&root, None);
    for (depth, key) in path.iter().enumerate() {
        let (children, in_braces) = fields(node, key, text)?;
        if in_braces {
            return Err(EditError::unclear(
                "has the entry in braces that were changed since; take it out by hand",
            ));
        }
        let Some((name, inner)) = field(children, key, text)? else { return Ok(text.to_owned()) };
        // A mapping goes if it was made for the entry and has nothing else.
        let alone = children.len() == 1 && depth > 0 && depth >= path.len() - made;
        if cut.is_none() || !alone {
            cut = Some(line_start(text, name.start)..line_end(text, inner.end.max(name.end)));
        }
        node = inner;
    }
    let Some(cut) = cut else { return Ok(text.to_owned()) };
    Ok(format!("{}{}", &text[..cut.start], &text[cut.end..]))
}

/// An entry on lines of its own.
fn block(path: &[&str], value: &Value, indent: usize, newline: &str) -> String {
    let Some((key, inner)) = path.split_first() else { return lines(value, indent, newline) };
    let on_lines = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    let behind = match inner {
        [] if !on_lines => format!(" {}{newline}", scalar(value)),
        _ => format!("{newline}{}", block(inner, value, indent + 2, newline)),
    };
    format!("{:indent$}{}:{behind}", "", scalar(&Value::from(*key)))
}

fn lines(value: &Value, indent: usize, newline: &str) -> String {
    match value {
        Value::Object(fields) => {
            in_order(fields).into_iter().map(|(key, value)| block(&[key], value, indent, newline)).collect()
        }
        Value::Array(items) => items
            .iter()
            // Of two ways to write a list, the one of the program that these files are of.
            .map(|item| format!("{:width$}- {}{newline}", "", scalar(item), width = indent.saturating_sub(2)))
            .collect(),
        other => format!("{:indent$}{}{newline}", "", scalar(other)),
    }
}

/// A word as it is where nothing else can be read into it, else in quotes.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
        && plain(text).is_string()
        && !["yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if safe { text.clone() } else { Value::from(text.as_str()).to_string() }
}
