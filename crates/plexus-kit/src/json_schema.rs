//! JSON Schema that was derived from Rust types, without what means something to Rust only. Each takes one object of a
//! schema; whoever has a schema walks through it.

use serde_json::{Map, Value};

/// The size of an integer says nothing to whoever writes one.
pub fn drop_sizes(object: &mut Map<String, Value>) {
    let size = |format: &str| format.starts_with("int") || format.starts_with("uint");
    if object.get("format").and_then(Value::as_str).is_some_and(size) {
        object.remove("format");
    }
}

/// `T or null` becomes `T`: what may be left out is left out.
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
