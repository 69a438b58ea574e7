//! Arguments that a server of the stateless era wants to see in headers too, so that what stands between can route by
//! them: those whose schema says `x-mcp-header`.
//!
//! A tool whose schema says it in a way that cannot be followed is left out, as the specification asks: each of its
//! calls would be refused.

use std::collections::{HashMap, HashSet};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::session::header_text;
use crate::upstream::client::Definitions;

const MARK: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Deeper than any schema that people write.
const MAX_DEPTH: usize = 16;

/// For each tool that has any: where an argument is, and the header it goes into.
#[derive(Debug, Default)]
pub(super) struct Parameters(HashMap<String, Vec<Parameter>>);

#[derive(Debug)]
struct Parameter {
    path: Vec<String>,
    header: HeaderName,
}

/// The schema marks an argument in a way that cannot be followed.
#[derive(Debug)]
struct Unusable;

impl Parameters {
    /// What the schemas say, and the tools that can be called.
    pub(super) fn of(tools: Definitions) -> (Self, Definitions) {
        let mut parameters = HashMap::new();
        let mut kept = Definitions::with_capacity(tools.len());
        for tool in tools {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            match marked(tool.get("inputSchema").unwrap_or(&Value::Null)) {
                Ok(found) => {
                    if !found.is_empty() {
                        parameters.insert(name.to_owned(), found);
                    }
                    kept.push(tool);
                }
                Err(Unusable) => {
                    tracing::warn!(
                        tool = name,
                        "left out: its schema has an `{MARK}` that cannot be followed"
                    );
                }
            }
        }
        (Self(parameters), kept)
    }

    /// The headers of a call. An argument that is absent, or null, has none.
    pub(super) fn add(&self, tool: &str, arguments: &Value, headers: &mut HeaderMap) {
        for Parameter { path, header } in self.0.get(tool).into_iter().flatten() {
            let found = path.iter().try_fold(arguments, |value, key| value.get(key));
            let text = match found {
                Some(Value::String(text)) => header_text(text),
                Some(Value::Bool(value)) => HeaderValue::from_static(if *value { "true" } else { "false" }),
                Some(Value::Number(number)) => header_text(&number.to_string()),
                _ => continue,
            };
            headers.insert(header.clone(), text);
        }
    }
}

fn marked(schema: &Value) -> Result<Vec<Parameter>, Unusable> {
    let mut found = Vec::new();
    if let Some(schema) = schema.as_object() {
        collect(schema, &mut Vec::new(), &mut found)?;
    }
    let distinct: HashSet<&HeaderName> = found.iter().map(|parameter| &parameter.header).collect();
    // A mark anywhere but on a property cannot be followed: which argument it is about depends on the arguments.
    if distinct.len() == found.len() && found.len() == marks(schema, MAX_DEPTH) {
        Ok(found)
    } else {
        Err(Unusable)
    }
}

fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Vec<Parameter>,
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
            found.push(Parameter { path: path.clone(), header });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// How often a schema has the mark, wherever it is. What is only named like it, as a property, is none.
fn marks(schema: &Value, depth: usize) -> usize {
    match schema {
        _ if depth == 0 => 0,
        Value::Array(schemas) => schemas.iter().map(|schema| marks(schema, depth - 1)).sum(),
        Value::Object(schema) => {
            let inside = schema.iter().map(|(key, value)| match (key.as_str(), value) {
                (MARK, _) => 1,
                ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                    named.values().map(|schema| marks(schema, depth - 1)).sum()
                }
                ("default" | "const" | "enum" | "examples", _) => 0,
                (_, value) => marks(value, depth - 1),
            });
            inside.sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn learnt(schema: Value) -> (Parameters, usize) {
        let Value::Object(tool) = json!({ "name": "t", "inputSchema": schema }) else { unreachable!() };
        let (parameters, kept) = Parameters::of(vec![tool]);
        (parameters, kept.len())
    }

    fn sent(schema: Value, arguments: &Value) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        learnt(schema).0.add("t", arguments, &mut headers);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    #[test]
    fn marked_arguments_are_repeated_in_headers() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "flag": { "type": "boolean", "x-mcp-header": "Flag" },
            "other": { "type": "string" },
        } });
        let arguments = json!({ "region": "Köln", "deep": { "n": 42 }, "flag": null, "other": "x" });
        let mut sent = sent(schema, &arguments);
        sent.sort();
        let expected = [("mcp-param-n", "42"), ("mcp-param-region", "=?base64?S8O2bG4=?=")];
        assert_eq!(sent, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_tool_whose_marks_cannot_be_followed_is_left_out() {
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
            assert_eq!(learnt(schema.clone()).1, 0, "{schema}");
        }
        // A property may be called like the mark.
        assert_eq!(
            learnt(json!({ "type": "object", "properties": { "x-mcp-header": { "type": "string" } } })).1,
            1
        );
    }
}
