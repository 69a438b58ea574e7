//! JSON Schema from Rust types, in the plain form that models and older clients get right:
//! inlined, without `$schema` and titles, and with optional fields absent instead of nullable.

use plexus_kit::json_schema;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// What a caller has to send for a `T`.
pub(crate) fn of_input<T: JsonSchema>() -> Value {
    generate::<T>(|settings| settings, true)
}

/// What a caller gets for a `T`; a null that is sent stays a null.
pub(crate) fn of_output<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::for_serialize, false)
}

fn generate<T: JsonSchema>(direction: fn(SchemaSettings) -> SchemaSettings, without_null: bool) -> Value {
    let settings = direction(SchemaSettings::draft2020_12()).with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema, without_null);
    // A struct without fields has none.
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
            // An argument that is null is taken as absent before validation.
            if without_null {
                json_schema::drop_null(object);
            }
            object.values_mut().for_each(|value| simplify(value, without_null));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| simplify(item, without_null)),
        _ => {}
    }
}

/// The same schema with the argument `action` limited to `allowed`.
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
