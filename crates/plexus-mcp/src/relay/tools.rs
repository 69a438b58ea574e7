//! Adapts tool definitions and calls to a revision.

use http::HeaderMap;
use serde_json::{Map, Value};

use super::request::argument_headers;
use crate::server::list;
use crate::version::Dialect;

/// Removes the members of a tool's definition that a revision does not have.
pub fn remove_unsupported_members(tool: &mut Map<String, Value>, dialect: Dialect) {
    list::remove_unsupported_members(tool, dialect.features());
}

/// Adds the headers for the arguments that a tool's schema marks.
pub fn add_argument_headers(schema: &Value, arguments: &Value, headers: &mut HeaderMap) {
    headers.extend(argument_headers(schema, arguments));
}
