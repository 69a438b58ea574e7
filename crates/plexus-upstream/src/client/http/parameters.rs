//! Arguments that a server of the stateless era requires in headers too.

use std::collections::HashMap;

use http::header::HeaderMap;
use plexus_mcp::param_headers::{ParamHeader, header_text, param_headers};
use serde_json::Value;

use crate::client::Definitions;

/// Per tool: the location of an argument and its header.
#[derive(Debug, Default)]
pub(super) struct Parameters(HashMap<String, Vec<ParamHeader>>);

impl Parameters {
    /// Reads the schemas. Tools with invalid marks are left out of the catalog.
    pub(super) fn of(tools: &Definitions) -> Self {
        let mut parameters = HashMap::new();
        for tool in tools {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            let headers = param_headers(tool.get("inputSchema").unwrap_or(&Value::Null)).unwrap_or_default();
            if !headers.is_empty() {
                parameters.insert(name.to_owned(), headers);
            }
        }
        Self(parameters)
    }

    /// Adds the headers of a call. An absent or null argument has none.
    pub(super) fn add(&self, tool: &str, arguments: &Value, headers: &mut HeaderMap) {
        for mark in self.0.get(tool).into_iter().flatten() {
            if let Some(text) = mark.text(arguments) {
                headers.insert(mark.header.clone(), header_text(&text));
            }
        }
    }
}

#[cfg(test)]
mod tests;
