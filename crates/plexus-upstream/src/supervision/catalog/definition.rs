//! Normalizes tool definitions to what strict clients accept.
//!
//! A strict client rejects a whole list because of one tool, including the tools of other servers. Members of
//! the wrong type are therefore corrected if their meaning is clear, and dropped otherwise; only a tool whose
//! arguments are not an object is unusable.

use serde_json::{Map, Value, json};

/// Normalizes a definition, or returns why the tool is unusable.
pub(super) fn clean(definition: &mut Map<String, Value>) -> Result<(), &'static str> {
    // The server's task support is not offered to callers, so they should not request it.
    definition.remove("execution");
    for (member, right) in [
        ("title", Value::is_string as fn(&Value) -> bool),
        ("description", Value::is_string),
        ("annotations", Value::is_object),
        ("outputSchema", Value::is_object),
        ("icons", Value::is_array),
        ("_meta", Value::is_object),
    ] {
        keep_if(definition, member, right);
    }
    if let Some(Value::Object(annotations)) = definition.get_mut("annotations") {
        annotations.retain(|name, value| match name.as_str() {
            "title" => value.is_string(),
            name => !name.ends_with("Hint") || value.is_boolean(),
        });
    }
    if let Some(Value::Array(icons)) = definition.get_mut("icons") {
        icons.retain(is_icon);
    }
    if let Some(Value::Object(schema)) = definition.get_mut("outputSchema") {
        clean_schema(schema);
    }
    match definition.get_mut("inputSchema") {
        Some(Value::Object(schema)) => {
            clean_schema(schema);
            clean_type(schema)
        }
        _ => Err("has no inputSchema that is an object"),
    }
}

/// Arguments are always an object, so a schema without a type, or with several, is taken to mean one.
fn clean_type(schema: &mut Map<String, Value>) -> Result<(), &'static str> {
    let is_object = match schema.get("type") {
        None | Some(Value::Null) => true,
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(only) => only == "object",
    };
    if !is_object {
        return Err("has an inputSchema whose type is not \"object\"");
    }
    schema.insert("type".to_owned(), json!("object"));
    Ok(())
}

/// Normalizes the parts of a schema that clients inspect: its properties and the required ones.
fn clean_schema(schema: &mut Map<String, Value>) {
    let is_text = |list: &Vec<Value>| list.iter().all(Value::is_string);
    keep_if(schema, "required", |required| required.as_array().is_some_and(is_text));
    keep_if(schema, "properties", Value::is_object);
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut().filter(|property| !property.is_object()) {
        // `false` matches nothing; `true`, and anything that is not a schema, matches everything.
        *property = if *property == false { json!({ "not": {} }) } else { json!({}) };
    }
}

fn is_icon(icon: &Value) -> bool {
    let Value::Object(icon) = icon else { return false };
    icon.iter().all(|(name, value)| match name.as_str() {
        "src" | "mimeType" => value.is_string(),
        "sizes" => value.as_array().is_some_and(|sizes| sizes.iter().all(Value::is_string)),
        "theme" => value == "light" || value == "dark",
        _ => true,
    }) && icon.contains_key("src")
}

fn keep_if(map: &mut Map<String, Value>, member: &str, right: impl FnOnce(&Value) -> bool) {
    if map.get(member).is_some_and(|value| !right(value)) {
        map.remove(member);
    }
}

#[cfg(test)]
mod tests;
