//! Argument validation. Errors say what a model has to change.

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind};
use plexus_proto::ErrorCode;
use serde_json::{Map, Value, json};

use crate::redact;
use crate::visible::nearest;
use crate::{CallError, ToolSpec, alias};

/// The most problems reported in one error.
const MAX_PROBLEMS: usize = 8;
/// The most characters of an invalid value that an error quotes.
const MAX_VALUE_SHOWN: usize = 80;

/// Removes nulls of optional fields, at any depth: null means "not given".
pub(crate) fn drop_nulls(arguments: &mut Map<String, Value>, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    arguments.retain(|name, value| !value.is_null() || is_required(name) || !properties.contains_key(name));
    for (name, value) in arguments {
        let schema = &properties.get(name).unwrap_or(&Value::Null);
        match value {
            Value::Object(fields) => drop_nulls(fields, schema),
            Value::Array(items) => {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    drop_nulls(item, &schema["items"]);
                }
            }
            _ => {}
        }
    }
}

/// Validates arguments, which already have their canonical names, against the tool's schema.
pub(crate) fn validate(spec: &ToolSpec, validator: &Validator, arguments: &Value) -> Result<(), CallError> {
    if validator.is_valid(arguments) {
        return Ok(());
    }
    let problems: Vec<Value> = validator
        .iter_errors(arguments)
        .flat_map(|error| problems(&error, spec))
        .take(MAX_PROBLEMS)
        .collect();
    Err(invalid(&spec.name, problems))
}

/// Refuses U+0000, which PostgreSQL cannot store in text.
pub(crate) fn storable(tool: &str, field: &str, text: &str) -> Result<(), CallError> {
    if !text.contains('\0') {
        return Ok(());
    }
    let message = "must not contain the character U+0000";
    Err(invalid(tool, vec![serde_json::json!({ "path": format!("/{field}"), "message": message })]))
}

/// Combines a list of `{path, message, …}` into one error.
#[must_use]
pub fn invalid(tool: &str, problems: Vec<Value>) -> CallError {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| {
            let path = problem["path"].as_str().filter(|path| !path.is_empty()).unwrap_or("(arguments)");
            format!("- {path}: {}", problem["message"].as_str().unwrap_or("invalid"))
        })
        .collect();
    CallError::new(
        ErrorCode::InvalidArguments,
        format!("Invalid arguments for {tool}:\n{}", lines.join("\n")),
    )
    .hint("Nothing was run. Correct the arguments and call again.")
    .details(json!({ "problems": problems }))
}

/// The error of a missing field that this action requires.
#[must_use]
pub fn missing(tool: &str, field: &str, action: &str) -> CallError {
    let message = format!("required for action {action:?}");
    invalid(tool, vec![json!({ "path": format!("/{field}"), "message": message, "expected": "a value" })])
}

fn problems(error: &ValidationError<'_>, spec: &ToolSpec) -> Vec<Value> {
    let path = error.instance_path().to_string();
    let got = shown(&path, error.instance());
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
            .iter()
            .take(MAX_PROBLEMS)
            .map(|field| unknown_field(&path, field, spec, error))
            .collect(),
        ValidationErrorKind::Required { property } => {
            let field = property.as_str().unwrap_or_default();
            let message = "missing; this field is required".to_owned();
            vec![json!({ "path": format!("{path}/{field}"), "message": message, "expected": "a value" })]
        }
        ValidationErrorKind::Type { kind } => {
            let expected = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            let message = format!("expected {expected}, got {got}");
            vec![json!({ "path": path, "message": message, "expected": expected, "got": got })]
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<&str> =
                options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            vec![not_an_option(&path, &options, error.instance())]
        }
        ValidationErrorKind::OneOfNotValid { .. } => {
            let location = error.schema_path().to_string();
            let options: Vec<&str> = spec
                .input_schema
                .pointer(&location)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|option| option["const"].as_str())
                .collect();
            vec![not_an_option(&path, &options, error.instance())]
        }
        _ => vec![
            json!({ "path": path, "message": format!("{}", error.masked_with("the value")), "got": got }),
        ],
    }
}

fn unknown_field(path: &str, field: &str, spec: &ToolSpec, error: &ValidationError<'_>) -> Value {
    // The object schema that refused the field is the parent of its `additionalProperties`.
    let location = error.schema_path().to_string();
    let parent = location.rsplit_once('/').map_or("", |(parent, _)| parent);
    let known_fields: Vec<&str> = spec
        .input_schema
        .pointer(&format!("{parent}/properties"))
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let field: String = field.chars().take(MAX_VALUE_SHOWN).collect();
    // A misspelled name may be close to an alias, which no schema lists.
    let also = alias::names_at(spec.handling.aliases, path);
    let nearest_name = nearest(&field, also.iter().chain(&known_fields).copied());
    let message = match nearest_name {
        Some(nearest_name) => format!("unknown field; did you mean {nearest_name:?}?"),
        None if known_fields.is_empty() => "unknown field; no fields are allowed here".to_owned(),
        None => format!("unknown field; known fields are {}", quoted(&known_fields)),
    };
    json!({ "path": format!("{path}/{field}"), "message": message, "expected": known_fields, "nearest": nearest_name })
}

fn not_an_option(path: &str, options: &[&str], got: &Value) -> Value {
    let nearest_name = got
        .as_str()
        .filter(|_| !path.split('/').any(redact::is_secret_name))
        .and_then(|text| nearest(text, options.iter().copied()));
    let mut message = format!("expected one of {}, got {}", quoted(options), shown(path, got));
    if let Some(nearest_name) = nearest_name {
        message.push_str(&format!("; did you mean {nearest_name:?}?"));
    }
    json!({ "path": path, "message": message, "expected": options, "got": shown(path, got), "nearest": nearest_name })
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// A truncated invalid value for an error; a value under a credential-like name is not shown.
fn shown(path: &str, value: &Value) -> String {
    if path.split('/').any(redact::is_secret_name) {
        return redact::REDACTED.to_owned();
    }
    let mut value = value.clone();
    redact::value(&mut value);
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_SHOWN) {
        None => text,
        Some((cut, _)) => format!("{}…", &text[..cut]),
    }
}
