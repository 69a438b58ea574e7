//! Tool arguments that are repeated in headers, so that intermediaries can route by them. The tool's schema marks
//! them with `x-mcp-header`.
//!
//! As a client, the hub repeats the arguments; as a server, it compares them.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

const MARK: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Deeper than hand-written schemas.
const MAX_DEPTH: usize = 16;

/// An argument that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The property names that lead to it.
    pub path: Vec<String>,
    pub header: HeaderName,
}

impl ParamHeader {
    /// Its value in these arguments; none if it is absent, null, or not representable in a header.
    pub fn value<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let value = self.path.iter().try_fold(arguments, |value, key| value.get(key))?;
        matches!(value, Value::String(_) | Value::Bool(_) | Value::Number(_)).then_some(value)
    }

    /// The header's text for these arguments, before encoding.
    pub fn text(&self, arguments: &Value) -> Option<String> {
        self.value(arguments).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }
}

/// The schema contains an invalid `x-mcp-header` mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidMark;

/// The marks in the schema of a tool's arguments.
pub fn param_headers(schema: &Value) -> Result<Vec<ParamHeader>, InvalidMark> {
    let mut marks = Vec::new();
    if let Some(schema) = schema.as_object() {
        collect(schema, &mut Vec::new(), &mut marks)?;
    }
    let distinct: HashSet<&HeaderName> = marks.iter().map(|mark| &mark.header).collect();
    // A mark elsewhere than on a property is ambiguous: the argument it belongs to depends on the arguments.
    if distinct.len() == marks.len() && marks.len() == count(schema, MAX_DEPTH) {
        Ok(marks)
    } else {
        Err(InvalidMark)
    }
}

fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    marks: &mut Vec<ParamHeader>,
) -> Result<(), InvalidMark> {
    if path.len() == MAX_DEPTH {
        return Ok(());
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        path.push(name.clone());
        if let Some(mark) = property.get(MARK) {
            let plain = matches!(
                property.get("type").and_then(Value::as_str),
                Some("string" | "integer" | "boolean")
            );
            let name = mark.as_str().filter(|name| plain && !name.is_empty()).ok_or(InvalidMark)?;
            let header =
                HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes()).map_err(|_| InvalidMark)?;
            marks.push(ParamHeader { path: path.clone(), header });
        }
        collect(property, path, marks)?;
        path.pop();
    }
    Ok(())
}

/// The number of marks anywhere in a schema. A property with the name of the mark does not count.
fn count(schema: &Value, depth: usize) -> usize {
    match schema {
        _ if depth == 0 => 0,
        Value::Array(schemas) => schemas.iter().map(|schema| count(schema, depth - 1)).sum(),
        Value::Object(schema) => {
            let inside = schema.iter().map(|(key, value)| match (key.as_str(), value) {
                (MARK, _) => 1,
                ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                    named.values().map(|schema| count(schema, depth - 1)).sum()
                }
                ("default" | "const" | "enum" | "examples", _) => 0,
                (_, value) => count(value, depth - 1),
            });
            inside.sum()
        }
        _ => 0,
    }
}

/// A text as a header value: unchanged if possible, otherwise in Base64 between markers.
pub fn header_text(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim_ascii().len() == text.len()
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let value = if plain { HeaderValue::from_str(text) } else { encoded(text) };
    // Both forms contain only valid header bytes.
    value.unwrap_or(HeaderValue::from_static(""))
}

fn encoded(text: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text)))
}

#[cfg(test)]
mod tests;
