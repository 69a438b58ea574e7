//! Arguments of a tool that are repeated in headers, so that what stands between client and server can route by them:
//! those whose schema says `x-mcp-header`.
//!
//! The hub reads the marks on both sides: it repeats the arguments where it calls, and compares them where it is called.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

const MARK: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Deeper than any schema that people write.
const MAX_DEPTH: usize = 16;

/// An argument that goes into a header too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The names of the properties that lead to it.
    pub path: Vec<String>,
    pub header: HeaderName,
}

impl ParamHeader {
    /// The argument in these arguments; none where it is absent, null, or nothing that a header could say.
    pub fn value<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let found = self.path.iter().try_fold(arguments, |value, key| value.get(key))?;
        matches!(found, Value::String(_) | Value::Bool(_) | Value::Number(_)).then_some(found)
    }

    /// What the header says of these arguments, before it is encoded.
    pub fn text(&self, arguments: &Value) -> Option<String> {
        self.value(arguments).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }
}

/// The schema marks an argument in a way that cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusable;

/// The marks in the schema of a tool's arguments.
pub fn param_headers(schema: &Value) -> Result<Vec<ParamHeader>, Unusable> {
    let mut found = Vec::new();
    if let Some(schema) = schema.as_object() {
        collect(schema, &mut Vec::new(), &mut found)?;
    }
    let distinct: HashSet<&HeaderName> = found.iter().map(|mark| &mark.header).collect();
    // A mark anywhere but on a property cannot be followed: which argument it is about depends on the arguments.
    if distinct.len() == found.len() && found.len() == count(schema, MAX_DEPTH) {
        Ok(found)
    } else {
        Err(Unusable)
    }
}

fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), Unusable> {
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
            let name = mark.as_str().filter(|name| plain && !name.is_empty()).ok_or(Unusable)?;
            let header =
                HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes()).map_err(|_| Unusable)?;
            found.push(ParamHeader { path: path.clone(), header });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// How often a schema has the mark, wherever it is. What is only named like it, as a property, is none.
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

/// A text as the value of a header: as it is where that is possible, else in Base64 between marks.
pub fn header_text(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim_ascii().len() == text.len()
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let value = if plain { HeaderValue::from_str(text) } else { encoded(text) };
    // Neither form has a byte in it that a header could not carry.
    value.unwrap_or(HeaderValue::from_static(""))
}

fn encoded(text: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mark_is_found_where_properties_lead_to_it() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "flag": { "type": "boolean", "x-mcp-header": "Flag" },
            "other": { "type": "string" },
        } });
        let arguments = json!({ "region": "Köln", "deep": { "n": 42 }, "flag": null, "other": "x" });
        let marks = param_headers(&schema).unwrap();
        let mut said: Vec<_> =
            marks.iter().map(|mark| (mark.header.as_str(), mark.text(&arguments))).collect();
        said.sort();
        let region = Some("Köln".to_owned());
        assert_eq!(
            said,
            [("mcp-param-flag", None), ("mcp-param-n", Some("42".to_owned())), ("mcp-param-region", region)]
        );
    }

    #[test]
    fn a_mark_that_cannot_be_followed_is_told() {
        let of = |property: Value| json!({ "type": "object", "properties": { "a": property } });
        for schema in [
            of(json!({ "type": "number", "x-mcp-header": "A" })),
            of(json!({ "type": "string", "x-mcp-header": "" })),
            of(json!({ "type": "string", "x-mcp-header": "no token" })),
            of(json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "A" } })),
            json!({ "type": "object", "properties": {
                "a": { "type": "string", "x-mcp-header": "Same" },
                "b": { "type": "string", "x-mcp-header": "same" },
            } }),
        ] {
            assert_eq!(param_headers(&schema), Err(Unusable), "{schema}");
        }
        // A property may be called like the mark.
        let named = json!({ "type": "object", "properties": { "x-mcp-header": { "type": "string" } } });
        assert_eq!(param_headers(&named), Ok(vec![]));
    }

    #[test]
    fn a_name_is_sent_as_it_is_or_in_base64_between_marks() {
        for plain in ["echo", "a b", "mcp.tool-1_x", "=?base64?open", "", "~!"] {
            assert_eq!(header_text(plain), plain);
        }
        for (text, sent) in [
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            (" padded", "=?base64?IHBhZGRlZA==?="),
            ("line\nbreak", "=?base64?bGluZQpicmVhaw==?="),
        ] {
            assert_eq!(header_text(text), sent);
        }
    }
}
