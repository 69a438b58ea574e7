//! A tool as each revision knows it.

use http::HeaderMap;
use serde_json::{Map, Value};

use super::request::argument_headers;
use crate::server::list;
use crate::version::Dialect;

/// Takes from the definition of a tool what a revision does not know.
pub fn fit(tool: &mut Map<String, Value>, dialect: Dialect) {
    list::fit(tool, dialect.features());
}

/// Adds the arguments that a tool wants to see repeated in headers.
pub fn repeat_arguments(schema: &Value, arguments: &Value, headers: &mut HeaderMap) {
    headers.extend(argument_headers(schema, arguments));
}
