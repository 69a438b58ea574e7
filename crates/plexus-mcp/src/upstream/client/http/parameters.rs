//! Arguments that a server of the stateless era wants to see in headers too.
//!
//! A tool whose schema says so in a way that cannot be followed is left out, as the specification asks: each of its
//! calls would be refused.

use std::collections::HashMap;

use http::header::HeaderMap;
use serde_json::Value;

use super::session::header_text;
use crate::marks::{Mark, Unusable, marks};
use crate::upstream::client::Definitions;

/// For each tool that has any: where an argument is, and the header it goes into.
#[derive(Debug, Default)]
pub(super) struct Parameters(HashMap<String, Vec<Mark>>);

impl Parameters {
    /// What the schemas say, and the tools that can be called.
    pub(super) fn of(tools: Definitions) -> (Self, Definitions) {
        let mut parameters = HashMap::new();
        let mut kept = Definitions::with_capacity(tools.len());
        for tool in tools {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            match marks(tool.get("inputSchema").unwrap_or(&Value::Null)) {
                Ok(found) => {
                    if !found.is_empty() {
                        parameters.insert(name.to_owned(), found);
                    }
                    kept.push(tool);
                }
                Err(Unusable) => {
                    tracing::warn!(
                        tool = name,
                        "left out: its schema has an `x-mcp-header` that cannot be followed"
                    );
                }
            }
        }
        (Self(parameters), kept)
    }

    /// The headers of a call. An argument that is absent, or null, has none.
    pub(super) fn add(&self, tool: &str, arguments: &Value, headers: &mut HeaderMap) {
        for mark in self.0.get(tool).into_iter().flatten() {
            if let Some(text) = mark.text(arguments) {
                headers.insert(mark.header.clone(), header_text(&text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marked_arguments_are_repeated_in_headers_and_unusable_tools_left_out() {
        let property = |kind: &str| json!({ "type": "object", "properties": { "a": { "type": kind, "x-mcp-header": "A" } } });
        let tool = |name: &str, schema: Value| match json!({ "name": name, "inputSchema": schema }) {
            Value::Object(tool) => tool,
            _ => unreachable!(),
        };
        let tools = vec![tool("t", property("string")), tool("u", property("number"))];
        let (parameters, kept) = Parameters::of(tools);
        assert_eq!(kept.len(), 1);
        let mut headers = HeaderMap::new();
        parameters.add("t", &json!({ "a": "Köln" }), &mut headers);
        assert_eq!(headers["mcp-param-a"], "=?base64?S8O2bG4=?=");
        parameters.add("u", &json!({ "a": 1 }), &mut headers);
        assert_eq!(headers.len(), 1);
    }
}
