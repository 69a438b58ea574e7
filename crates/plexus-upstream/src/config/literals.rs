//! Detects literal credentials in server files: warns about them and masks them wherever a document is shown.

use plexus_kit::credential::{self, REDACTED};
use plexus_kit::reference::{self, Part};
use serde_json::{Map, Value};

use super::problem::Findings;

/// Warns about every string that looks like a credential, with a suggested replacement.
pub(super) fn warn(slug: &str, document: &Map<String, Value>, findings: &mut Findings) {
    let prefix = slug.to_ascii_uppercase();
    visit(document, &mut |field, text| {
        if is_credential(field, text) {
            findings.warn(
                &field.to_string(),
                format_args!(
                    "holds what looks like a credential; write {} instead, and set that variable where the hub is started",
                    replacement(field, &prefix)
                ),
            );
        } else if matches!(field, Field::Argument { .. }) && names_credential(text) {
            findings.warn(
                &field.to_string(),
                "exposes a credential to every user of the machine; pass it in `env` if the program \
                 reads it from there",
            );
        }
    });
}

/// The document with credentials masked. It need not be valid: a key may be misspelt.
pub(super) fn masked(document: &Map<String, Value>) -> Map<String, Value> {
    let mut masked = document.clone();
    for (key, value) in &mut masked {
        // These hold tool names, some of which mention tokens.
        if !matches!(key.as_str(), "tools" | "groups" | "inject") {
            mask(&Field::Key(key), value);
        }
    }
    masked
}

fn mask(field: &Field<'_>, value: &mut Value) {
    match value {
        Value::String(text) if is_credential(field, text) => *text = without_credential(field, text),
        Value::Array(items) => {
            let mut before: Option<String> = None;
            for (index, item) in items.iter_mut().enumerate() {
                let written = item.as_str().map(str::to_owned);
                mask(&Field::Argument { index, before: before.as_deref() }, item);
                before = written;
            }
        }
        Value::Object(fields) => {
            for (name, inner) in fields {
                match field {
                    // File paths.
                    Field::Key("tls") => {}
                    Field::Key("env") => mask(&Field::Variable(name), inner),
                    Field::Key("headers") => mask(&Field::Header(name), inner),
                    _ => mask(&Field::Key(name), inner),
                }
            }
        }
        _ => {}
    }
}

/// Masks only the credential, so that the rest of a URL or a longer text and the credential's name stay
/// readable.
fn without_credential(field: &Field<'_>, text: &str) -> String {
    let Some(pattern) = credential::pattern() else { return REDACTED.to_owned() };
    match field {
        Field::Key("instructions") => pattern.replace_all(text, REDACTED).into_owned(),
        Field::Key("url") => without_random(&pattern.replace_all(text, REDACTED)),
        Field::Argument { before, .. } => match assigned(text) {
            Some(value) => format!("{}{REDACTED}", &text[..text.len() - value.len()]),
            None if follows_flag(*before, text) || pattern.is_match(text) => REDACTED.to_owned(),
            None => without_random(text),
        },
        _ => REDACTED.to_owned(),
    }
}

/// Whether resolving a document reads anything from the hub's machine: the target of a reference, or a
/// certificate to present.
///
/// Anyone who may write such a document can read the hub's environment and files by sending them elsewhere.
#[must_use]
pub fn has_references(document: &Value) -> bool {
    match document {
        Value::String(text) => reference::contains_reference(text),
        Value::Array(items) => items.iter().any(has_references),
        Value::Object(fields) => {
            let certificates = fields.get("auth").is_some_and(|auth| auth.get("tls").is_some());
            certificates || fields.values().any(has_references)
        }
        _ => false,
    }
}

/// The position of a string, which helps to decide whether it is a credential.
enum Field<'a> {
    Variable(&'a str),
    Header(&'a str),
    /// With the preceding argument, which may be the flag that it belongs to.
    Argument {
        index: usize,
        before: Option<&'a str>,
    },
    Key(&'a str),
    /// A field that always holds a credential.
    Secret(&'static str),
}

impl std::fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env.{name}"),
            Self::Header(name) => write!(f, "headers.{name}"),
            Self::Argument { index, .. } => write!(f, "args[{index}]"),
            Self::Key(name) => f.write_str(name),
            Self::Secret(name) => f.write_str(name),
        }
    }
}

/// Visits every string that can hold a credential.
fn visit(document: &Map<String, Value>, look: &mut dyn FnMut(&Field<'_>, &str)) {
    for key in ["url", "command", "cwd", "instructions"] {
        if let Some(text) = document.get(key).and_then(Value::as_str) {
            look(&Field::Key(key), text);
        }
    }
    let mut before = None;
    for (index, item) in document.get("args").and_then(Value::as_array).into_iter().flatten().enumerate() {
        if let Some(text) = item.as_str() {
            look(&Field::Argument { index, before }, text);
        }
        before = item.as_str();
    }
    for (name, item) in document.get("env").and_then(Value::as_object).into_iter().flatten() {
        if let Some(text) = item.as_str() {
            look(&Field::Variable(name), text);
        }
    }
    for (name, item) in document.get("headers").and_then(Value::as_object).into_iter().flatten() {
        if let Some(text) = item.as_str() {
            look(&Field::Header(name), text);
        }
    }
    if let Some(text) = document.get("auth").and_then(|auth| auth.get("client_secret")?.as_str()) {
        look(&Field::Secret("auth.client_secret"), text);
    }
}

fn is_credential(field: &Field<'_>, text: &str) -> bool {
    let literal = reference::literal(text);
    let may_be_address = matches!(field, Field::Key("url") | Field::Argument { .. });
    if credential::contains_credential(&literal) || (may_be_address && without_random(&literal) != literal) {
        return true;
    }
    // In a string that contains a reference, the literal part is assumed to surround the credential.
    if reference::contains_reference(text) {
        return false;
    }
    match field {
        Field::Variable(name) | Field::Key(name) => names_secret(name) && is_value(&literal),
        Field::Header(name) => names_secret(name) && !literal.trim().is_empty(),
        Field::Secret(_) => !literal.trim().is_empty(),
        Field::Argument { before, .. } => assigned(&literal).is_some() || follows_flag(*before, &literal),
    }
}

/// The value in an argument such as `--api-key=value` or `X-Api-Key: value`.
fn assigned(argument: &str) -> Option<&str> {
    let (name, value) = argument.split_once(['=', ':'])?;
    let name = name.trim_start_matches('-');
    let value = value.trim_start();
    (names_secret(name) && is_value(value)).then_some(value)
}

/// Whether an argument is the value of the flag before it, as in `--api-key value`.
fn follows_flag(before: Option<&str>, argument: &str) -> bool {
    let flag = before.filter(|before| before.starts_with('-')).map(|flag| flag.trim_start_matches('-'));
    flag.is_some_and(names_secret) && is_value(argument) && !argument.starts_with('-')
}

/// Masks the random-looking path segments of a URL: some servers identify their users by them.
fn without_random(text: &str) -> String {
    const SEGMENT_SEPARATORS: [char; 5] = ['/', '?', '&', '=', '#'];
    let host = text.find("://").map(|scheme| scheme + "://".len());
    let path = host.and_then(|host| text[host..].find('/').map(|path| host + path));
    let (before, path) = text.split_at(path.unwrap_or(text.len()));
    let mut shown = before.to_owned();
    for piece in path.split_inclusive(SEGMENT_SEPARATORS) {
        let segment = piece.trim_end_matches(SEGMENT_SEPARATORS);
        shown.push_str(if is_random(segment) { REDACTED } else { segment });
        shown.push_str(&piece[segment.len()..]);
    }
    shown
}

/// Whether a segment is long and not composed of words and numbers.
fn is_random(segment: &str) -> bool {
    let has = |text: &str, kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    let mixed = |text: &str| has(text, u8::is_ascii_digit) && has(text, u8::is_ascii_alphabetic);
    if segment.len() < 20 || !segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~%".contains(&b)) {
        return false;
    }
    let digits = segment.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_hex = digits >= 32 && segment.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let is_cased = has(segment, u8::is_ascii_uppercase) && has(segment, u8::is_ascii_lowercase);
    is_hex
        || (segment.len() >= 32 && is_cased && mixed(segment))
        || segment.split(['-', '_', '.', '~', '%']).any(|part| part.len() >= 16 && mixed(part))
}

/// Whether a name denotes a secret; includes names that do so only in configuration files.
fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let ends = ["_key", "_pass", "_pwd", "_pat", "_auth"];
    credential::is_secret_name(&name) || name == "key" || ends.iter().any(|end| name.ends_with(end))
}

/// Whether a text is neither a path, a switch nor empty.
fn is_value(text: &str) -> bool {
    let text = text.trim();
    let is_path = text.starts_with(['/', '~', '.']);
    !text.is_empty() && !is_path && !matches!(text, "true" | "false" | "0" | "1")
}

/// Whether a text references a variable whose name denotes a secret.
fn names_credential(text: &str) -> bool {
    reference::parts(text).any(|part| match part {
        Part::Reference(reference) => match reference.split_once(':') {
            Some(("env", name)) => names_secret(name.split(":-").next().unwrap_or(name)),
            Some(("secret", _)) => true,
            _ => false,
        },
        _ => false,
    })
}

fn replacement(field: &Field<'_>, prefix: &str) -> String {
    match field {
        Field::Variable(name) if reference::is_variable_name(name) => format!("`${{env:{name}}}`"),
        Field::Header(name) if name.eq_ignore_ascii_case("authorization") => {
            format!("`Bearer ${{env:{prefix}_TOKEN}}`")
        }
        _ => format!("`${{env:{prefix}_TOKEN}}`"),
    }
}
