//! JSON Schema from Rust types, in the simple form that models and older clients handle well: inlined, without
//! `$schema` and titles, and with optional fields absent instead of nullable.

use plexus_kit::json_schema;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::QueuedWrite;

/// The schema of a `T` as input.
pub(crate) fn of_input<T: JsonSchema>() -> Value {
    generate::<T>(|settings| settings, true)
}

/// The schema of a `T` as output; nulls are sent as nulls.
pub(crate) fn of_output<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::for_serialize, false)
}

/// The output schema of a tool whose calls may be buffered: its own output, or the notice that the call was queued.
/// Both forms forbid additional properties, so no other value matches; definitions stay where references point to.
pub(crate) fn or_queued(output: Value) -> Value {
    let mut forms = [output, of_output::<QueuedWrite>()];
    let mut schema = json!({ "type": "object" });
    for (index, form) in forms.iter_mut().enumerate() {
        move_root(form, &format!("#/anyOf/{index}"));
        let Value::Object(form) = form else { continue };
        form.entry("additionalProperties").or_insert(Value::Bool(false));
        if let Some(definitions) = form.remove("$defs") {
            schema["$defs"] = definitions;
        }
    }
    schema["anyOf"] = json!(forms);
    schema
}

/// Redirects references to the root to the schema's new location.
fn move_root(schema: &mut Value, to: &str) {
    match schema {
        Value::Object(object) => {
            if object.get("$ref").is_some_and(|reference| reference == "#") {
                object.insert("$ref".to_owned(), Value::from(to));
            }
            object.values_mut().for_each(|value| move_root(value, to));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_root(item, to)),
        _ => {}
    }
}

fn generate<T: JsonSchema>(direction: fn(SchemaSettings) -> SchemaSettings, without_null: bool) -> Value {
    let settings = direction(SchemaSettings::draft2020_12()).with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema, without_null);
    // The schema of a struct without fields has no `properties`.
    if let Some(object) = schema.as_object_mut().filter(|object| object["type"] == "object") {
        object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    schema
}

fn simplify(schema: &mut Value, without_null: bool) {
    match schema {
        Value::Object(object) => {
            if object.get("title").is_some_and(Value::is_string) && object.contains_key("type") {
                object.remove("title");
            }
            json_schema::drop_sizes(object);
            json_schema::join_lines(object);
            // Null arguments are removed before validation.
            if without_null {
                json_schema::drop_null(object);
            }
            object.values_mut().for_each(|value| simplify(value, without_null));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| simplify(item, without_null)),
        _ => {}
    }
}

/// The arguments that select the node of a call.
pub(crate) const ROUTING: [&str; 3] = ["node", "queue", "queue_seconds"];
/// The default time that a queued call waits, in seconds.
pub(crate) const QUEUE_SECONDS: u64 = 3_600;
/// The longest time that a queued call may wait, in seconds.
pub(crate) const MAX_QUEUE_SECONDS: u64 = 7 * 24 * 3_600;

/// The same schema with the arguments that select the node.
pub(crate) fn with_routing(mut schema: Value) -> Value {
    let routing = json!({
        "node": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "Machine to run on: its name, its id, or labels such as `role=nas`. Left out: the one that you are set up for, else the hub's own, `local`."
        },
        "queue": {
            "type": "boolean",
            "description": "If the machine is away, wait for it instead of failing at once."
        },
        "queue_seconds": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_QUEUE_SECONDS,
            "description": format!("With `queue`: how long to wait for the machine, {QUEUE_SECONDS} if not given.")
        }
    });
    if let (Value::Object(routing), Some(object)) = (routing, schema.as_object_mut()) {
        let properties = object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(properties) = properties {
            properties.extend(routing);
        }
    }
    schema
}

/// The same schema with the argument `action` restricted to `allowed`.
pub(crate) fn narrow_actions(schema: &Value, allowed: &[&str]) -> Value {
    let mut schema = schema.clone();
    if let Some(action) = schema.pointer_mut("/properties/action") {
        let keep = |value: &Value| value.as_str().is_some_and(|name| allowed.contains(&name));
        if let Some(Value::Array(options)) = action.get_mut("oneOf") {
            options.retain(|option| keep(&option["const"]));
        }
        if let Some(Value::Array(options)) = action.get_mut("enum") {
            options.retain(keep);
        }
    }
    schema
}

#[cfg(test)]
mod tests;
