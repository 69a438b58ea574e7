//! Parsers of argument values: durations, `key=value` pairs, tool arguments as JSON.

use std::io::Read;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::failure::{Exit, Failure};

/// Arguments of a call read from a file or a pipe; the hub takes 4 MiB.
const MAX_ARGUMENT_BYTES: u64 = 16 << 20;

/// A [`span`] that is not empty.
pub(crate) fn ttl(text: &str) -> Result<u64, String> {
    match span(text)? {
        0 => Err("what lives no time is of no use".to_owned()),
        seconds => Ok(seconds),
    }
}

/// `30s`, `15m`, `12h`, `30d`, `1y` in seconds; a year is 365 days. Nothing at all needs no unit.
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

/// `key=value`; the value is JSON where it parses as JSON, else a string.
pub(crate) fn key_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected key=value")?;
    if key.is_empty() {
        return Err("the key before = is empty".to_owned());
    }
    Ok((key.to_owned(), json_or_string(value)))
}

/// `key=value` to set a label, `key-` to take it away.
pub(crate) fn label_change(text: &str) -> Result<(String, Option<String>), String> {
    match text.strip_suffix('-') {
        Some(key) if !key.is_empty() && !key.contains('=') => Ok((key.to_owned(), None)),
        _ => label(text)
            .map(|(key, value)| (key, Some(value)))
            .map_err(|error| format!("{error}, or role- to take it away")),
    }
}

/// `key=value`, both as they are.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected key=value, such as role=nas".to_owned()),
    }
}

fn json_or_string(text: &str) -> Value {
    match serde_json::from_str(text) {
        // A whole number too large for JSON numbers would silently lose digits: most likely an id.
        Ok(Value::Number(number)) if number.is_f64() && is_integer(text) => Value::String(text.to_owned()),
        Ok(value) => value,
        Err(_) => Value::String(text.to_owned()),
    }
}

fn is_integer(text: &str) -> bool {
    text.trim().trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit())
}

/// Arguments of a call: those of `--json-args`, with each `--arg` put over them in order.
pub(crate) fn merged(json_args: Option<&str>, pairs: Vec<(String, Value)>) -> anyhow::Result<Value> {
    let mut arguments = json_args.map_or_else(|| Ok(Map::new()), object)?;
    arguments.extend(pairs);
    Ok(Value::Object(arguments))
}

/// A JSON object, given as it is, as `@file`, or as `-` for standard input.
fn object(source: &str) -> anyhow::Result<Map<String, Value>> {
    let (text, name) = match source.strip_prefix('@') {
        _ if source == "-" => (bounded(std::io::stdin().lock(), "standard input")?, "standard input"),
        Some(path) => (bounded(fs_err::File::open(path)?, path)?, path),
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

/// The text of a file that is given to a hub.
pub(crate) fn file(path: &Path) -> anyhow::Result<String> {
    bounded(fs_err::File::open(path)?, &path.display().to_string())
}

fn bounded(source: impl Read, name: &str) -> anyhow::Result<String> {
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
