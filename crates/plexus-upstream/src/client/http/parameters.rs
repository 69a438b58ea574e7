//! Arguments that a server of the stateless era wants to see in headers too.

use std::collections::HashMap;

use http::header::HeaderMap;
use plexus_mcp::param_headers::{ParamHeader, header_text, param_headers};
use serde_json::Value;

use crate::client::Definitions;

/// For each tool that has any: where an argument is, and the header it goes into.
#[derive(Debug, Default)]
pub(super) struct Parameters(HashMap<String, Vec<ParamHeader>>);

impl Parameters {
    /// What the schemas say. A tool whose marks cannot be followed is left out where the tools are listed.
    pub(super) fn of(tools: &Definitions) -> Self {
        let mut parameters = HashMap::new();
        for tool in tools {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            let found = param_headers(tool.get("inputSchema").unwrap_or(&Value::Null)).unwrap_or_default();
            if !found.is_empty() {
                parameters.insert(name.to_owned(), found);
            }
        }
        Self(parameters)
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
    fn marked_arguments_are_repeated_in_headers_unless_that_cannot_be_done() {
        let property = |kind: &str| json!({ "type": "object", "properties": { "a": { "type": kind, "x-mcp-header": "A" } } });
        let tool = |name: &str, schema: Value| match json!({ "name": name, "inputSchema": schema }) {
            Value::Object(tool) => tool,
            _ => unreachable!(),
        };
        let tools = vec![tool("t", property("string")), tool("u", property("number"))];
        let parameters = Parameters::of(&tools);
        let mut headers = HeaderMap::new();
        parameters.add("t", &json!({ "a": "Köln" }), &mut headers);
        assert_eq!(headers["mcp-param-a"], "=?base64?S8O2bG4=?=");
        parameters.add("u", &json!({ "a": 1 }), &mut headers);
        assert_eq!(headers.len(), 1);
    }
}
