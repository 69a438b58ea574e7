//! Parses argument values: durations, `key=value` pairs, and tool arguments as JSON.

use std::io::Read;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::failure::{Exit, Failure};

/// Maximum size of input from a file or a pipe. The hub accepts 4 MiB for the arguments of a call.
const MAX_ARGUMENT_BYTES: u64 = 16 << 20;

/// Parses a [`span`] that is not zero.
pub(crate) fn ttl(text: &str) -> Result<u64, String> {
    match span(text)? {
        0 => Err("the lifetime must be longer than 0".to_owned()),
        seconds => Ok(seconds),
    }
}

/// Parses `30s`, `15m`, `12h`, `30d`, `2w` or `1y` into seconds. A year has 365 days. 0 needs no unit.
pub(crate) fn span(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "a number and a unit: 30s, 15m, 12h, 30d, 2w or 1y";
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if text == "0" {
        return Ok(0);
    }
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        "y" => 365 * 24 * 60 * 60,
        _ => return Err(format!("expected {EXPECTED}")),
    };
    if number.is_empty() {
        return Err(format!("expected {EXPECTED}"));
    }
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    total.ok_or_else(|| "too long".to_owned())
}

/// Parses `key=value`. The value is JSON if it parses as JSON, else a string.
pub(crate) fn key_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected key=value")?;
    if key.is_empty() {
        return Err("the key before = is empty".to_owned());
    }
    Ok((key.to_owned(), json_or_string(value)))
}

/// Parses `key=value`, which sets a label, or `key-`, which removes it.
pub(crate) fn label_change(text: &str) -> Result<(String, Option<String>), String> {
    match text.strip_suffix('-') {
        Some(key) if !key.is_empty() && !key.contains('=') => Ok((key.to_owned(), None)),
        _ => label(text)
            .map(|(key, value)| (key, Some(value)))
            .map_err(|error| format!("{error}, or role- to remove it")),
    }
}

/// Parses `key=value` into two strings.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected key=value, such as role=nas".to_owned()),
    }
}

fn json_or_string(text: &str) -> Value {
    match serde_json::from_str(text) {
        // An integer that does not fit would silently lose digits. It is most likely an id.
        Ok(Value::Number(number)) if number.is_f64() && is_integer(text) => Value::String(text.to_owned()),
        Ok(value) => value,
        Err(_) => Value::String(text.to_owned()),
    }
}

fn is_integer(text: &str) -> bool {
    text.trim().trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit())
}

/// Merges the arguments of a call: `--json-args`, then each `--arg` in order.
pub(crate) fn tool_arguments(json_args: Option<&str>, pairs: Vec<(String, Value)>) -> anyhow::Result<Value> {
    let mut arguments = json_args.map_or_else(|| Ok(Map::new()), object)?;
    arguments.extend(pairs);
    Ok(Value::Object(arguments))
}

/// Reads a JSON object, given as text, as `@file`, or as `-` for standard input.
fn object(source: &str) -> anyhow::Result<Map<String, Value>> {
    let (text, name) = match source.strip_prefix('@') {
        _ if source == "-" => (read_limited(std::io::stdin().lock(), "standard input")?, "standard input"),
        Some(path) => (read_limited(fs_err::File::open(path)?, path)?, path),
        None => (source.to_owned(), "--json-args"),
    };
    let usage =
        |message| Failure::new(Exit::Usage, message).hint("give a JSON object such as {\"text\": \"hello\"}");
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(usage(format!("{name} is JSON but not an object")).into()),
        Err(e) => Err(usage(format!("{name} is not JSON: {e}")).into()),
    }
}

/// Reads a file whose text is sent to a hub.
pub(crate) fn read_file(path: &Path) -> anyhow::Result<String> {
    read_limited(fs_err::File::open(path)?, &path.display().to_string())
}

fn read_limited(source: impl Read, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    source
        .take(MAX_ARGUMENT_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > MAX_ARGUMENT_BYTES {
        return Err(
            Failure::new(Exit::Usage, format!("{name} is longer than {MAX_ARGUMENT_BYTES} bytes")).into()
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
