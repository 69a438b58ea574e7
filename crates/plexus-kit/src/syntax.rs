//! Parses user-written files, JSON with comments or TOML, and edits them without changing the rest of the
//! text.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::path::Path;

use fs_err as fs;
use jsonc_parser::ast;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

/// Maximum nesting: no key needs more than four levels.
const MAX_DEPTH: usize = 32;

/// Syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// With comments and trailing commas, as editors allow them.
    Json,
    Toml,
}

impl Format {
    pub const ALL: [Self; 2] = [Self::Json, Self::Toml];

    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Toml => "toml",
        }
    }

    #[must_use]
    pub fn of_ending(ending: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.ending() == ending)
    }

    /// Parses an object; the error contains no values.
    pub fn parse(self, text: &str) -> Result<Map<String, Value>, String> {
        let value = match self {
            Self::Json => json(text)?,
            Self::Toml => toml(text)?,
        };
        match value {
            Value::Object(object) => Ok(object),
            _ => Err("is not an object: it must begin with `{`".to_owned()),
        }
    }

    /// Sets `enabled` in the text, even if the file has errors elsewhere.
    pub fn with_enabled(self, text: &str, enabled: bool) -> Result<String, String> {
        match self {
            Self::Json => {
                let root = CstRootNode::parse(text, &options()).map_err(|error| syntax_error(&error))?;
                let object = root.object_value().ok_or("is not an object: it must begin with `{`")?;
                match object.get("enabled") {
                    Some(property) => property.set_value(CstInputValue::Bool(enabled)),
                    None => {
                        object.append("enabled", CstInputValue::Bool(enabled));
                    }
                }
                Ok(root.to_string())
            }
            Self::Toml => {
                let mut document: toml_edit::DocumentMut = text
                    .parse()
                    .map_err(|error: toml_edit::TomlError| toml_error(text, error.span(), error.message()))?;
                match document.get_mut("enabled").and_then(toml_edit::Item::as_value_mut) {
                    // Preserves the trailing comment.
                    Some(value) => {
                        let decor = value.decor().clone();
                        *value = enabled.into();
                        *value.decor_mut() = decor;
                    }
                    None => document["enabled"] = toml_edit::value(enabled),
                }
                Ok(document.to_string())
            }
        }
    }
}

fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Parses JSON with comments. Rejects duplicate keys, because their meaning is ambiguous.
pub fn json(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options())
        .map_err(|error| syntax_error(&error))?
        .value
        .ok_or("is empty")?;
    converted(&parsed, text, 0)
}

fn converted(value: &ast::Value<'_>, text: &str, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::StringLit(literal) => Value::String(literal.value.to_string()),
        ast::Value::NumberLit(literal) => {
            let number: Option<Number> = literal.value.parse().ok();
            number.map(Value::Number).ok_or_else(|| {
                format!("has a number that is out of range on line {}", line(text, literal.range.start))
            })?
        }
        ast::Value::Array(array) => {
            let items = array.elements.iter().map(|item| converted(item, text, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let (mut fields, mut seen) = (Map::new(), HashSet::new());
            for property in &object.properties {
                let name = property.name.as_str();
                if !seen.insert(name) {
                    let line = line(text, property.range.start);
                    return Err(format!("has the key `{name}` twice in one object, again on line {line}"));
                }
                fields.insert(name.to_owned(), converted(&property.value, text, depth + 1)?);
            }
            Value::Object(fields)
        }
    })
}

fn toml(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let table: toml::Table =
        toml::from_str(text).map_err(|error| toml_error(text, error.span(), error.message()))?;
    from_toml(toml::Value::Table(table), 0)
}

fn from_toml(value: toml::Value, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        toml::Value::Boolean(on) => Value::Bool(on),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => {
            let items = items.into_iter().map(|item| from_toml(item, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => {
            let fields = table.into_iter().map(|(name, value)| Ok((name, from_toml(value, depth + 1)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
    })
}

/// The error kinds have fixed texts, without values from the file.
fn syntax_error(error: &jsonc_parser::errors::ParseError) -> String {
    let (line, column) = (error.line_display(), error.column_display());
    format!("is not JSON: {} on line {line}, column {column}", lowercase(&error.kind().to_string()))
}

/// Omits the source text: the parser's message may quote a credential whose quotes are missing.
fn toml_error(text: &str, span: Option<std::ops::Range<usize>>, message: &str) -> String {
    let line = line(text, span.map_or(0, |span| span.start));
    let written = text.lines().nth(line - 1).unwrap_or_default();
    if let Some((_, value)) = written.split_once('=')
        && value.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || "/~$@".contains(c))
    {
        return format!("is not TOML: text needs quotes on line {line}");
    }
    let message = message.lines().next().unwrap_or_default().split(['`', ',']).next().unwrap_or_default();
    format!("is not TOML: {} on line {line}", message.trim_end())
}

fn lowercase(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

fn line(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// Reads a regular file, or returns what is wrong with it and how to fix it.
pub fn read_bounded(file: &Path, most: u64) -> Result<String, (String, String)> {
    let unreadable = |error: io::Error| {
        // The caller adds the path.
        (
            format!("cannot be read ({})", error.kind()),
            "make it readable for the user that runs the hub".to_owned(),
        )
    };
    let metadata = fs::symlink_metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        let what = if metadata.is_symlink() { "is a symbolic link" } else { "is not a regular file" };
        return Err((what.to_owned(), "replace it with a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(unreadable)?;
    opened.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err((format!("is longer than {} KiB", most / 1024), "shorten it".to_owned()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        (format!("is not UTF-8: byte {at} is not part of a valid character"), "save it as UTF-8".to_owned())
    })
}
