//! JSON, with or without comments.

use jsonc_parser::ast::{self, Object, ObjectProp};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

use super::{EditError, Edited, MAX_DEPTH, Undo, line_number, line_start, newline, sorted_fields};

pub(super) fn value(text: &str, comments: bool) -> Result<Value, EditError> {
    Ok(parse(text, comments)?.map_or(Value::Null, |value| to_value(&value)))
}

fn parse(text: &str, comments: bool) -> Result<Option<ast::Value<'_>>, EditError> {
    if nesting(text) > MAX_DEPTH {
        return Err(EditError::unsupported(format!("is nested deeper than {MAX_DEPTH} levels")));
    }
    let options = ParseOptions {
        allow_comments: comments,
        allow_trailing_commas: comments,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        let what = error.kind().to_string().to_lowercase();
        let (line, column) = (error.line_display(), error.column_display());
        EditError::Invalid(format!("is not valid JSON: {what} on line {line}, column {column}"))
    })?;
    Ok(parsed.value)
}

/// Measures the nesting depth before a recursive parser runs.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            // A string ends on its line, so a quote in a comment hides at most the rest of that line.
            b'"' => in_string = !in_string,
            b'\n' => in_string = false,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The last of duplicate keys wins, as in the programs that read these files.
fn to_value(value: &ast::Value<'_>) -> Value {
    match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::StringLit(literal) => Value::String(literal.value.to_string()),
        ast::Value::NumberLit(literal) => match literal.value.parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::String(literal.value.to_owned()),
        },
        ast::Value::Array(array) => Value::Array(array.elements.iter().map(to_value).collect()),
        ast::Value::Object(object) => {
            let fields = object.properties.iter();
            Value::Object(
                fields.map(|field| (field.name.as_str().to_owned(), to_value(&field.value))).collect(),
            )
        }
    }
}

/// The objects along a path, outermost first, and the property at its end.
struct ObjectPath<'o, 't> {
    objects: Vec<&'o Object<'t>>,
    found: Option<&'o ObjectProp<'t>>,
}

fn object_path<'o, 't>(
    root: &'o Object<'t>,
    path: &[&str],
    text: &str,
) -> Result<ObjectPath<'o, 't>, EditError> {
    let mut object_path = ObjectPath { objects: vec![root], found: None };
    for (depth, key) in path.iter().enumerate() {
        let object = object_path.objects[depth];
        let mut matching = object.properties.iter().filter(|property| property.name.as_str() == *key);
        let Some(property) = matching.next() else { return Ok(object_path) };
        if let Some(again) = matching.next() {
            let line = line_number(text, again.start());
            let message = format!(
                "has the key \"{key}\" twice in one object, again on line {line}; remove one of them"
            );
            return Err(EditError::Unsupported(message));
        }
        if depth + 1 == path.len() {
            object_path.found = Some(property);
            return Ok(object_path);
        }
        match &property.value {
            ast::Value::Object(inner) => object_path.objects.push(inner),
            other => {
                let line = line_number(text, other.start());
                return Err(EditError::Unsupported(format!(
                    "has a value other than an object for \"{key}\" on line {line}"
                )));
            }
        }
    }
    Ok(object_path)
}

pub(super) fn set(text: &str, path: &[&str], value: &Value, comments: bool) -> Result<Edited, EditError> {
    let root = parse(text, comments)?;
    let style = Style::of(text);
    let root = match &root {
        Some(ast::Value::Object(object)) => object,
        Some(_) => return Err(EditError::unsupported("does not contain an object at the top level")),
        // Only white space and comments.
        None => {
            let trimmed = text.trim_end();
            let gap = if trimmed.is_empty() { "" } else { style.newline };
            let created = style.render(&nested(path, value), "");
            let undo = Undo::Inserted { made: path.len(), hollow: Some(text.to_owned()), fragment: None };
            return Ok(Edited { text: format!("{trimmed}{gap}{created}{}", style.newline), undo });
        }
    };
    let object_path = object_path(root, path, text)?;
    if let Some(found) = object_path.found {
        let (start, end) = (found.value.start(), found.value.end());
        let new = style.render(value, indent_at(text, found.start()));
        let undo = Undo::Replaced { raw: text[start..end].to_owned() };
        return Ok(Edited { text: splice(text, start, end, &new), undo });
    }
    let depth = object_path.objects.len() - 1;
    let object = object_path.objects[depth];
    let inner = nested(&path[depth + 1..], value);
    let hollow = object.properties.is_empty().then(|| text[object.start() + 1..object.end() - 1].to_owned());
    let text = insert_property(text, object, path[depth], &inner, &style);
    Ok(Edited { text, undo: Undo::Inserted { made: path.len() - 1 - depth, hollow, fragment: None } })
}

/// The value in objects for the keys of a path.
fn nested(path: &[&str], value: &Value) -> Value {
    let surrounding = |inner: Value, key: &&str| Value::Object(Map::from_iter([((*key).to_owned(), inner)]));
    path.iter().rev().fold(value.clone(), surrounding)
}

/// Appends a property to an object. Text between the last property and the closing brace stays before the new one.
fn insert_property(text: &str, object: &Object<'_>, key: &str, value: &Value, style: &Style) -> String {
    let close = object.end() - 1;
    let last = object.properties.last();
    let lines = !style.compact && (last.is_none() || text[object.start()..close].contains('\n'));
    let surrounding = indent_at(text, object.start());
    let indent = match last.filter(|last| is_first_on_line(text, last.start())) {
        Some(last) => indent_at(text, last.start()).to_owned(),
        None => format!("{surrounding}{}", style.unit),
    };
    let entry = format!("{}:{}{}", Value::from(key), style.gap(), style.render(value, &indent));
    let lead = match lines {
        true => format!("{}{indent}", style.newline),
        false if last.is_some() => style.gap().to_owned(),
        false => String::new(),
    };
    // Apart from white space, the text before the brace is a property, a comma or a comment.
    let position = text[..close].trim_end().len();
    let tail = match last {
        None if lines && !text[position..close].contains('\n') => format!("{}{surrounding}", style.newline),
        _ => String::new(),
    };
    match last {
        Some(last) if comma_after(text, last.end()).is_none() => {
            let new = splice(text, position, position, &format!("{lead}{entry}"));
            splice(&new, last.end(), last.end(), ",")
        }
        Some(_) => splice(text, position, position, &format!("{lead}{entry},")),
        None => splice(text, position, position, &format!("{lead}{entry}{tail}")),
    }
}

pub(super) fn undo(text: &str, path: &[&str], undo: &Undo, comments: bool) -> Result<String, EditError> {
    let Some(ast::Value::Object(root)) = parse(text, comments)? else { return Ok(text.to_owned()) };
    let object_path = object_path(&root, path, text)?;
    let (created, hollow) = match undo {
        Undo::Replaced { raw } => {
            return match object_path.found {
                Some(found) => Ok(splice(text, found.value.start(), found.value.end(), raw)),
                None => Ok(text.to_owned()),
            };
        }
        Undo::Inserted { made: created, hollow, .. } => (*created, hollow.as_deref()),
    };
    // Enclosing objects that were created with it are removed too, unless they have other content now.
    let mut depth = path.len() - 1;
    let outermost = depth.saturating_sub(created);
    while depth > outermost && object_path.objects[depth].properties.len() == 1 {
        depth -= 1;
    }
    let object = object_path.objects[depth];
    if depth == 0 && created == path.len() && object.properties.len() == 1 {
        return Ok(hollow.unwrap_or_default().to_owned());
    }
    let Some(property) = object.properties.iter().find(|property| property.name.as_str() == path[depth])
    else {
        return Ok(text.to_owned());
    };
    Ok(remove_property(text, object, property, hollow.filter(|_| depth == outermost)))
}

fn remove_property(
    text: &str,
    object: &Object<'_>,
    property: &ObjectProp<'_>,
    hollow: Option<&str>,
) -> String {
    let start = text[..property.start()].trim_end().len();
    if object.properties.len() == 1 {
        let (open, close) = (object.start() + 1, object.end() - 1);
        let end = comma_after(text, property.end()).map_or(property.end(), |comma| comma + 1);
        let remaining = format!("{}{}", &text[open..start], &text[end..close]);
        let inner = hollow.filter(|hollow| hollow.trim() == remaining.trim()).unwrap_or(&remaining);
        return splice(text, open, close, inner);
    }
    if let Some(comma) = comma_after(text, property.end()) {
        return splice(text, start, comma + 1, "");
    }
    let before = object.properties.iter().take_while(|other| other.start() < property.start()).last();
    let text_after = splice(text, start, property.end(), "");
    match before.and_then(|before| comma_after(text, before.end())) {
        Some(comma) => splice(&text_after, comma, comma + 1, ""),
        None => text_after,
    }
}

/// The position of the comma after a value; comments may precede it.
fn comma_after(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n')?;
        } else if rest.starts_with("/*") {
            at += rest.find("*/")? + 2;
        } else {
            return rest.starts_with(',').then_some(at);
        }
    }
}

fn splice(text: &str, start: usize, end: usize, new: &str) -> String {
    format!("{}{new}{}", &text[..start], &text[end..])
}

/// The indentation of the line at this position.
fn indent_at(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn is_first_on_line(text: &str, at: usize) -> bool {
    let line = &text[..at];
    line[line_start(text, at)..].trim_matches([' ', '\t']).is_empty() && line.contains('\n')
}

/// The formatting of the text, also used for insertions.
struct Style {
    newline: &'static str,
    unit: String,
    /// All on one line.
    compact: bool,
    /// Without a space after colons.
    tight: bool,
}

impl Style {
    fn of(text: &str) -> Self {
        let trimmed = text.trim();
        let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
        let unit = indented.map(|line| &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]);
        // A single space may come from the alignment of a block comment.
        let unit = unit.filter(|unit| *unit != " ").unwrap_or("  ").to_owned();
        let compact = !trimmed.contains('\n') && trimmed.contains(':');
        Self { newline: newline(text), unit, compact, tight: compact && !trimmed.contains(": ") }
    }

    fn gap(&self) -> &'static str {
        if self.tight { "" } else { " " }
    }

    fn render(&self, value: &Value, indent: &str) -> String {
        match value {
            Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
            Value::Object(fields) => {
                let inner = format!("{indent}{}", self.unit);
                let fields = sorted_fields(fields).into_iter().map(|(key, value)| {
                    let value = self.render(value, &inner);
                    format!("{}:{}{value}", Value::from(key.as_str()), self.gap())
                });
                let fields: Vec<String> = fields.collect();
                match self.compact {
                    true => format!("{{{}}}", fields.join(&format!(",{}", self.gap()))),
                    false => {
                        let (newline, between) = (self.newline, format!(",{}{inner}", self.newline));
                        format!("{{{newline}{inner}{}{newline}{indent}}}", fields.join(&between))
                    }
                }
            }
            // Arrays of strings are written on one line.
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.render(item, indent)).collect();
                format!("[{}]", items.join(&format!(",{}", self.gap())))
            }
            other => other.to_string(),
        }
    }
}
