//! The JSON Schema of a file that people write. Editors get the same schema that validates the files.

use jsonschema::Validator;
use jsonschema::error::{ValidationError, ValidationErrorKind};
use plexus_kit::config::nearest;
use plexus_kit::findings::Findings;
use plexus_kit::{json_schema, reference};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Hints about fields that a schema cannot express.
#[derive(Debug, Clone, Copy)]
pub struct FieldHints {
    /// The remedy for a key of another program's format.
    pub misplaced_key_hint: fn(&str) -> Option<&'static str>,
    /// The remedy for each field.
    pub value_hint: fn(&[&str]) -> &'static str,
}

#[derive(Debug)]
pub struct FileSchema {
    schema: Value,
    /// None if the schema does not compile; then every file is refused.
    validator: Option<Validator>,
    hints: FieldHints,
}

impl FileSchema {
    /// Creates the schema from the type of the file.
    #[must_use]
    pub fn of<T: JsonSchema>(hints: FieldHints) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        simplify(&mut schema);
        Self { validator: jsonschema::validator_for(&schema).ok(), schema, hints }
    }

    /// The schema as it is committed.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.schema).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reports unknown keys and invalid values and removes them from the document, so the rest can be checked. Returns
    /// the keys that the unknown ones most likely stand for.
    pub fn check(&self, document: &mut Map<String, Value>, findings: &mut Findings) -> Vec<String> {
        let input = Value::Object(std::mem::take(document));
        let (mut invalid_paths, mut suggested_keys) = (Vec::new(), Vec::new());
        match self.validator.as_ref() {
            Some(validator) => {
                for error in validator.iter_errors(&input) {
                    self.report(&error, findings, &mut invalid_paths, &mut suggested_keys);
                }
            }
            // A schema derived from a type compiles; if it does not, refuse the file.
            None => findings.unusable("cannot be checked", "report this: the schema of the files is broken"),
        }
        if let Value::Object(mut fields) = input {
            for path in invalid_paths {
                remove(&mut fields, &path);
            }
            *document = fields;
        }
        suggested_keys
    }

    fn report(
        &self,
        error: &ValidationError<'_>,
        findings: &mut Findings,
        invalid_paths: &mut Vec<Vec<String>>,
        suggested_keys: &mut Vec<String>,
    ) {
        let path: Vec<String> = segments(&error.instance_path().to_string());
        let field = shown_path(&path);
        if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
            let valid_keys = self.known_keys(&path);
            for key in unexpected {
                let fix = match (
                    (self.hints.misplaced_key_hint)(key),
                    nearest(key, valid_keys.iter().map(String::as_str)),
                ) {
                    (Some(fix), _) if path.is_empty() => fix.to_owned(),
                    (_, Some(nearest_key)) => {
                        if path.is_empty() {
                            suggested_keys.push(nearest_key.to_owned());
                        }
                        format!("did you mean `{nearest_key}`?")
                    }
                    (_, None) => format!("the keys here are {}", listed(&valid_keys)),
                };
                let key_path: Vec<String> = path.iter().chain([key]).cloned().collect();
                findings.problem(shown_path(&key_path), "is not a known key", fix);
                invalid_paths.push(key_path);
            }
            return;
        }
        // Unresolved references are checked after they are resolved.
        if error.instance().as_str().is_some_and(reference::contains_reference) {
            return;
        }
        invalid_paths.push(path.clone());
        // The reference could not be resolved, which has been reported.
        if findings.is_broken(&field) {
            return;
        }
        let problem = match error.kind() {
            ValidationErrorKind::Type { .. } | ValidationErrorKind::AnyOf { .. } => {
                format!("is {}", form(error.instance()))
            }
            ValidationErrorKind::Minimum { .. } | ValidationErrorKind::Maximum { .. } => {
                "is out of range".to_owned()
            }
            _ if error.instance().is_string() => "is none of the values it can have".to_owned(),
            _ => format!("is {}", form(error.instance())),
        };
        let keys: Vec<&str> = path.iter().map(String::as_str).collect();
        findings.problem(field, problem, (self.hints.value_hint)(&keys));
    }

    /// The allowed keys of an object of the document.
    fn known_keys(&self, path: &[String]) -> Vec<String> {
        let schema = path.iter().try_fold(&self.schema, |schema, key| schema["properties"].get(key));
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        properties.into_iter().flatten().map(|(key, _)| key.clone()).collect()
    }
}

/// Adapts the schema to files: an omitted key is not null, and Rust integer formats are removed.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            json_schema::drop_sizes(object);
            json_schema::join_lines(object);
            json_schema::drop_null(object);
            if object.get("default").is_some_and(is_empty) {
                object.remove("default");
            }
            object.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Whether a default is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() || fields.values().all(is_empty),
        _ => false,
    }
}

/// Describes the form of a value without showing the value.
fn form(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_u64() => "a number",
        Value::Number(number) if number.is_i64() => "a negative number",
        Value::Number(_) => "a number with a fraction",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn listed(keys: &[String]) -> String {
    keys.iter()
        .filter(|key| !key.starts_with('$'))
        .map(|key| format!("`{key}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

/// A path as people write it: `tools.allow[2]`.
#[must_use]
pub fn shown_path(path: &[String]) -> String {
    let mut text = String::new();
    for (depth, part) in path.iter().enumerate() {
        let is_place = depth > 0 && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match (depth, is_place) {
            (0, _) => text.push_str(part),
            (_, true) => text.push_str(&format!("[{part}]")),
            (_, false) => {
                text.push('.');
                text.push_str(part);
            }
        }
    }
    text
}

fn remove(fields: &mut Map<String, Value>, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let Some((first, parents)) = parents.split_first() else {
        fields.remove(last);
        return;
    };
    let mut holder = fields.get_mut(first);
    for key in parents {
        holder = match holder {
            Some(Value::Object(fields)) => fields.get_mut(key),
            Some(Value::Array(items)) => key.parse().ok().and_then(|at: usize| items.get_mut(at)),
            _ => None,
        };
    }
    match holder {
        Some(Value::Object(fields)) => {
            fields.remove(last);
        }
        Some(Value::Array(items)) => {
            if let Some(item) = last.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                // The position stays, so later items keep their index.
                *item = Value::String(String::new());
            }
        }
        _ => {}
    }
}
