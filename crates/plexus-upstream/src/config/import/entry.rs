//! Converts one server entry of another program's file into a document.

use serde_json::{Map, Value, json};

use super::dialect::{self, CommonEntry, Dialect};
use super::form::Inputs;
use super::variables::translated;

/// Keys with the same meaning in both formats.
const SHARED_KEYS: [&str; 14] = [
    "command",
    "args",
    "cwd",
    "headers",
    "groups",
    "instructions",
    "enabled",
    "tools",
    "max_concurrency",
    "lazy",
    "per_session",
    "questions",
    "inject",
    "allow_private",
];

pub(super) struct ConvertedEntry {
    pub(super) document: Map<String, Value>,
    /// Keys that are not imported, each with the reason.
    pub(super) left_out: Vec<String>,
}

/// A document with the same meaning, or the reason why there is none.
pub(super) fn convert(given: &Value, dialect: Dialect, inputs: &Inputs) -> Result<ConvertedEntry, String> {
    let Value::Object(given) = given else {
        return Err("it is not an object".to_owned());
    };
    let CommonEntry { entry, mut left_out } = dialect::common(dialect, given)?;
    let mut document = Map::new();
    for (key, value) in &entry {
        match key.as_str() {
            "type" | "transport" => {
                document.insert("transport".to_owned(), json!(transport(value)?));
            }
            "url" | "serverUrl" => {
                document.insert("url".to_owned(), value.clone());
            }
            // An entry that has both keys selects this transport with this one.
            "httpUrl" => {
                document.insert("url".to_owned(), value.clone());
                document.insert("transport".to_owned(), json!("streamable_http"));
            }
            "env" => {
                document.insert("env".to_owned(), variables(value, &mut left_out));
            }
            "disabled" => {
                document.insert("enabled".to_owned(), json!(value != true));
            }
            "timeout" => {
                document.insert("timeout".to_owned(), timeout(value));
            }
            "disabledTools" | "excludeTools" => add_rule(&mut document, "deny", value),
            "enabledTools" | "includeTools" => add_rule(&mut document, "allow", value),
            "naming" | "node" => {
                document.insert(key.clone(), value.clone());
            }
            // The key of the entry already names the server.
            "name" | "$schema" => {}
            key if SHARED_KEYS.contains(&key) => {
                document.insert(key.to_owned(), value.clone());
            }
            key => left_out.push(format!("`{key}` is not imported: {}", why(key))),
        }
    }
    // Empty parts are dropped; some programs always write all of them.
    document.retain(|_, value| !is_nothing(value));
    // The others have their references translated already.
    let written = document.iter_mut().filter(|_| dialect == Dialect::Common);
    for (key, value) in written {
        translate(value, inputs).map_err(|(field, why)| format!("`{key}{field}` {why}"))?;
    }
    Ok(ConvertedEntry { document, left_out })
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn transport(value: &Value) -> Result<&'static str, String> {
    let name = value.as_str().ok_or("its `type` is not text")?;
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "stdio" | "local" => Ok("stdio"),
        "sse" => Ok("sse"),
        "http" | "streamablehttp" | "remote" => Ok("streamable_http"),
        _ => Err("its `type` is not one of the supported stdio, sse and http".to_owned()),
    }
}

/// Values of variables are strings; numbers and booleans are converted.
fn variables(value: &Value, left_out: &mut Vec<String>) -> Value {
    let Value::Object(given) = value else { return value.clone() };
    let mut variables = Map::new();
    for (name, value) in given {
        match value {
            Value::Number(_) | Value::Bool(_) => {
                variables.insert(name.clone(), json!(value.to_string()));
            }
            Value::Null => left_out.push(format!(
                "`env.{name}` is not imported: it unsets a variable, and a program only gets the variables that are \
                 named here"
            )),
            value => {
                variables.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(variables)
}

/// Some programs count seconds and some milliseconds. A limit of more than 16 minutes or of less than a
/// second is implausible, so 1000 separates the two.
fn timeout(value: &Value) -> Value {
    match value.as_u64() {
        Some(number) if number >= 1000 => json!(format!("{number}ms")),
        _ => value.clone(),
    }
}

/// Adds a rule for tools. A value that is not an object stays and is refused with the rest of the document.
fn add_rule(document: &mut Map<String, Value>, rule: &str, names: &Value) {
    if let Value::Object(tools) = document.entry("tools").or_insert_with(|| json!({})) {
        tools.insert(rule.to_owned(), names.clone());
    }
}

fn why(key: &str) -> &'static str {
    match key {
        "envFile" => {
            "copy its variables into `env`, or set them where the hub is started and write `${env:NAME}`"
        }
        "autoApprove" | "alwaysAllow" | "trust" => "tokens and profiles decide which tools may be called",
        "oauth" | "auth" | "headersHelper" => {
            "login settings are not imported; write the `headers` that the server requires"
        }
        _ => "Plexus has no such key",
    }
}

/// Rewrites the references in every string to this format. On failure returns the field and the reason.
fn translate(value: &mut Value, inputs: &Inputs) -> Result<(), (String, String)> {
    match value {
        Value::String(text) => {
            *text = translated(text, inputs).map_err(|why| (String::new(), why))?;
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                translate(item, inputs).map_err(|(field, why)| (format!("[{index}]{field}"), why))?;
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                translate(field, inputs).map_err(|(inner, why)| (format!(".{name}{inner}"), why))?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}
