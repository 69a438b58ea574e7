//! Reports for people and for programs.

mod compare;
mod json;
mod table;
mod text;

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::args::{Args, MeasurementArgs};
use crate::run::Results;
pub(crate) use table::Table;

/// In a Markdown file, tables are between these lines; the rest of the file is not changed.
#[derive(Debug)]
struct DocMarkers {
    begin: String,
    end: String,
}

impl DocMarkers {
    /// The markers of this command.
    fn of(command: &str) -> Self {
        let mark = |position: &str| format!("<!-- Written by `{command}`: {position} -->");
        Self { begin: mark("begin"), end: mark("end") }
    }
}

/// Prints the tables of the main measurement, and writes the requested files.
pub(crate) fn write(results: &Results, args: &Args) -> Result<()> {
    let text = text::all(results, args)?;
    let json = match &args.json {
        Some(path) => Some((path.as_path(), json::all(results, args)?)),
        None => None,
    };
    put("make bench", &text, json, args.docs.as_deref())
}

/// The same for the additional measurement with this name.
pub(crate) fn write_measurement(
    name: &str,
    text: &str,
    measured: &impl Serialize,
    args: &MeasurementArgs,
) -> Result<()> {
    let json = args.json.as_deref().map(|path| (path, measured));
    put(&format!("make bench ARGS={name}"), text, json, args.docs.as_deref())
}

fn put(command: &str, text: &str, json: Option<(&Path, impl Serialize)>, docs: Option<&Path>) -> Result<()> {
    println!("{text}");
    if let Some((path, measured)) = json {
        save(path, &format!("{}\n", serde_json::to_string_pretty(&measured).context("JSON")?))?;
    }
    if let Some(path) = docs {
        let page = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let page = put_between(&page, &DocMarkers::of(command), text);
        save(path, &page.with_context(|| path.display().to_string())?)?;
    }
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The page with the text between its markers replaced.
fn put_between(page: &str, marks: &DocMarkers, text: &str) -> Result<String> {
    let DocMarkers { begin, end } = marks;
    let missing = || format!("the lines `{begin}` and `{end}` are missing or not in this order");
    let (before, rest) = page.split_once(begin).with_context(missing)?;
    let (_, after) = rest.split_once(end).with_context(missing)?;
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests;
