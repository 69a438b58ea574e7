//! Removes Rust-specific parts from derived JSON Schemas. Each function works on one object of a schema; the
//! caller walks the schema.

use serde_json::{Map, Value};

/// Removes integer sizes, which are irrelevant to authors of values.
pub fn drop_sizes(object: &mut Map<String, Value>) {
    let size = |format: &str| format.starts_with("int") || format.starts_with("uint");
    if object.get("format").and_then(Value::as_str).is_some_and(size) {
        object.remove("format");
    }
}

/// Joins the lines of a description: doc comments are wrapped for the source file. Empty lines still separate paragraphs.
pub fn join_lines(object: &mut Map<String, Value>) {
    if let Some(Value::String(description)) = object.get_mut("description")
        && description.contains('\n')
    {
        let paragraphs = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
}

/// Turns `T or null` into `T`: optional fields are omitted, not set to null.
pub fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(options)) = object.get_mut("anyOf") {
        options.retain(|option| option["type"] != "null");
        if let [Value::Object(only)] = options.as_mut_slice() {
            let only = std::mem::take(only);
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
}
