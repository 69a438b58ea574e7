//! Converts the entries of programs with their own configuration format to the common keys.
//!
//! The converted entries contain references in the syntax of the hub. Text that only looks like a reference is escaped,
//! because these programs use it literally.

use plexus_kit::reference::{Part, is_variable_name, parts};
use serde_json::{Map, Value, json};

/// The configuration format of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `command`, `args`, `env`, `url`, `headers`: most programs.
    Common,
    Codex,
    Zed,
    OpenCode,
    Goose,
}

/// An entry with the common keys, and messages about the settings that are not imported.
pub(super) struct CommonEntry {
    pub(super) entry: Map<String, Value>,
    pub(super) left_out: Vec<String>,
}

/// Converts an entry to the common keys. The error explains why the hub cannot start or reach the server.
pub(super) fn common(dialect: Dialect, given: &Map<String, Value>) -> Result<CommonEntry, String> {
    let mut common = CommonEntry { entry: Map::new(), left_out: Vec::new() };
    for (key, value) in given {
        let value = as_here(dialect, value.clone());
        match dialect {
            Dialect::Common => common.put(key, value),
            Dialect::Codex => common.codex(key, value),
            Dialect::Zed => common.zed(key, value),
            Dialect::OpenCode => common.opencode(key, value),
            Dialect::Goose => common.goose(key, value),
        }
    }
    let starts = ["command", "url"].iter().any(|key| common.entry.contains_key(*key));
    if dialect == Dialect::Zed && !starts {
        return Err(
            "it belongs to an extension of Zed, which knows how to start it; write `command` or `url`"
                .to_owned(),
        );
    }
    Ok(common)
}

impl CommonEntry {
    fn put(&mut self, key: &str, value: Value) {
        self.entry.insert(key.to_owned(), value);
    }

    /// Adds to an object such as `env`.
    fn add(&mut self, key: &str, fields: impl IntoIterator<Item = (String, Value)>) {
        if let Value::Object(object) = self.entry.entry(key.to_owned()).or_insert_with(|| json!({})) {
            object.extend(fields);
        }
    }

    /// Adds variables whose values the program takes from its own environment.
    fn add_variables(&mut self, names: &Value) {
        let names = names.as_array().into_iter().flatten();
        let names = names.filter_map(|name| name.as_str().or_else(|| name.get("name")?.as_str()));
        let pairs: Vec<_> = names.map(|name| (name.to_owned(), json!(format!("${{env:{name}}}")))).collect();
        self.add("env", pairs);
    }

    fn codex(&mut self, key: &str, value: Value) {
        match key {
            "env" => self.add("env", object(value)),
            "env_vars" => self.add_variables(&value),
            "http_headers" => self.add("headers", object(value)),
            "env_http_headers" => {
                let headers = object(value).into_iter().filter_map(|(header, variable)| {
                    Some((header, json!(format!("${{env:{}}}", variable.as_str()?))))
                });
                self.add("headers", headers.collect::<Vec<_>>());
            }
            "bearer_token_env_var" => {
                if let Some(variable) = value.as_str() {
                    let header = json!(format!("Bearer ${{env:{variable}}}"));
                    self.add("headers", [("Authorization".to_owned(), header)]);
                }
            }
            "tool_timeout_sec" => self.put("timeout", seconds(&value)),
            "enabled_tools" => self.put("enabledTools", value),
            "disabled_tools" => self.put("disabledTools", value),
            // How long the program itself waits for the server.
            "startup_timeout_sec" | "startup_timeout_ms" | "required" => {}
            "tools" | "default_tools_approval_mode" => self
                .left_out
                .push(format!("`{key}` is not imported: what may be called is said by tokens and profiles")),
            key => self.put(key, value),
        }
    }

    fn zed(&mut self, key: &str, value: Value) {
        match (key, value) {
            // As earlier releases wrote it.
            ("command", Value::Object(command)) => {
                for (key, value) in command {
                    self.put(if key == "path" { "command" } else { &key }, value);
                }
            }
            ("source" | "settings" | "remote", _) => {}
            (key, value) => self.put(key, value),
        }
    }

    fn opencode(&mut self, key: &str, value: Value) {
        match (key, value) {
            ("command", Value::Array(mut words)) if !words.is_empty() => {
                self.put("command", words.remove(0));
                self.put("args", Value::Array(words));
            }
            ("environment", value) => self.put("env", value),
            // How long it waits for the list of tools; and that it is not to log in.
            ("timeout", _) | ("oauth", Value::Bool(false)) => {}
            (key, value) => self.put(key, value),
        }
    }

    fn goose(&mut self, key: &str, value: Value) {
        match key {
            "cmd" => self.put("command", value),
            "uri" => self.put("url", value),
            "envs" => self.add("env", object(value)),
            "env_keys" => self.add_variables(&value),
            "timeout" => self.put("timeout", seconds(&value)),
            "available_tools" => {
                if value.as_array().is_some_and(|tools| !tools.is_empty()) {
                    self.put("enabledTools", value);
                }
            }
            "name" | "display_name" | "description" | "bundled" => {}
            key => self.put(key, value),
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A number of seconds, which may have a fraction, as a time.
fn seconds(value: &Value) -> Value {
    match (value.as_u64(), value.as_f64()) {
        (Some(seconds), _) => json!(format!("{seconds}s")),
        (None, Some(seconds)) if seconds > 0.0 => json!(format!("{:.0}ms", seconds * 1000.0)),
        _ => value.clone(),
    }
}

/// Every text as the hub writes it.
fn as_here(dialect: Dialect, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(match dialect {
            Dialect::Common => text,
            Dialect::OpenCode => with_references(&escaped(&text)),
            Dialect::Codex | Dialect::Zed | Dialect::Goose => escaped(&text),
        }),
        Value::Array(items) => items.into_iter().map(|item| as_here(dialect, item)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, as_here(dialect, value))).collect()
        }
        other => other,
    }
}

fn escaped(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            Part::Text("${") => output.push_str("$${"),
            Part::Text(text) => output.push_str(text),
            Part::Reference(reference) => output.push_str(&format!("$${{{reference}}}")),
            Part::Open(text) => output.push_str(&text.replace("${", "$${")),
        }
    }
    output
}

/// `{env:NAME}` and `{file:PATH}`, as OpenCode writes them.
fn with_references(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        output.push_str(before);
        let inner = from.find('}').map(|end| (&from[1..end], &from[end + 1..]));
        let is_reference = |inner: &str| match inner.split_once(':') {
            Some(("env", name)) => is_variable_name(name),
            Some(("file", path)) => !path.is_empty(),
            _ => false,
        };
        match inner {
            Some((inner, after)) if !before.ends_with('$') && is_reference(inner) => {
                output.push_str(&format!("${{{inner}}}"));
                rest = after;
            }
            _ => {
                output.push('{');
                rest = &from[1..];
            }
        }
    }
    output.push_str(rest);
    output
}
