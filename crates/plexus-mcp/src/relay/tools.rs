//! A tool as each revision knows it.

use http::HeaderMap;
use serde_json::{Map, Value};

use super::request::argument_headers;
use crate::server::{Dialect, Features};

/// Takes from the definition of a tool what a revision does not know.
pub fn fit(tool: &mut Map<String, Value>, dialect: Dialect) {
    fit_features(tool, dialect.features());
}

pub(crate) fn fit_features(tool: &mut Map<String, Value>, features: Features) {
    if !features.annotations {
        tool.remove("annotations");
    }
    if !features.structured {
        tool.remove("title");
        tool.remove("outputSchema");
    }
    let is_object = tool.get("outputSchema").is_some_and(|schema| schema["type"] == "object");
    if !is_object && !features.any_data {
        tool.remove("outputSchema");
    }
}

/// Adds the arguments that a tool wants to see repeated in headers.
pub fn repeat_arguments(schema: &Value, arguments: &Value, headers: &mut HeaderMap) {
    headers.extend(argument_headers(schema, arguments));
}
