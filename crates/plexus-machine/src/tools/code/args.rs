//! The arguments of `code_exec`.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_tools::{Alias, CallError, arguments};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::languages::Language;
use crate::tools::CODE_EXEC;

/// The default timeout of a snippet.
pub(super) const DEFAULT_TIME: Duration = Duration::from_secs(60);
/// The maximum timeout; the policy of the machine may set a lower one.
pub(super) const MAX_TIME: Duration = Duration::from_secs(3_600);
/// The maximum number of input files.
const MAX_FILES: usize = 256;
/// The maximum length in bytes of a file name and of one path component, as in most file systems.
const MAX_NAME: usize = 1024;
const MAX_COMPONENT: usize = 255;

/// Argument names that agents know from their own tools.
pub(super) const ALIASES: &[Alias] = &[
    Alias::new("language", &["lang"]),
    Alias::new("code", &["source", "source_code", "script"]),
    Alias::new("files/name", &["path", "file_path", "filename"]),
    Alias::new("files/text", &["content", "contents"]),
    Alias::new("args", &["argv", "arguments"]),
    Alias::new("stdin", &["input"]),
    Alias::new("env", &["environment"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(super) language: Language,
    /// The source code.
    #[schemars(length(min = 1))]
    pub(super) code: String,
    /// Files to create in the snippet's folder before it runs.
    pub(super) files: Option<Vec<GivenFile>>,
    /// Arguments of the program.
    pub(super) args: Option<Vec<String>>,
    /// The complete standard input; empty by default.
    pub(super) stdin: Option<String>,
    /// Environment variables to add.
    pub(super) env: Option<BTreeMap<String, String>>,
    /// Kill the snippet after this time (default 60). The machine may allow less.
    #[schemars(range(min = 1, max = 3_600))]
    pub(super) timeout_seconds: Option<u64>,
    /// Files of its folder to return: names, `*` matches any text. Default: new and changed files.
    pub(super) collect: Option<Vec<String>>,
}

/// A file name with its content, either as `text` or as `base64`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenFile {
    /// Path within the folder, such as `data/in.csv`.
    pub(super) name: String,
    pub(super) text: Option<String>,
    pub(super) base64: Option<String>,
}

/// A validated input file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InputFile {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// Validates the input files, including the code itself.
pub(super) fn files(args: &mut Args, max_bytes: u64) -> Result<Vec<InputFile>, CallError> {
    let files_given = args.files.take().unwrap_or_default();
    if files_given.len() > MAX_FILES {
        return Err(wrong("files", &format!("at most {MAX_FILES} files can be given at once")));
    }
    let script = args.language.script(&args.code);
    let mut files =
        vec![InputFile { name: script.to_owned(), content: std::mem::take(&mut args.code).into_bytes() }];
    for file in files_given {
        let field = format!("files/{}", files.len() - 1);
        check_name(&file.name).map_err(|why| wrong(&field, &format!("{:?}: {why}", file.name)))?;
        if file.name == script {
            let message = format!("{script:?} is the name of the code itself; use another file name");
            return Err(wrong(&field, &message));
        }
        let content = match (file.text, file.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => STANDARD
                .decode(text.trim())
                .map_err(|error| wrong(&field, &format!("{:?}: invalid base64: {error}", file.name)))?,
            _ => return Err(wrong(&field, "give either `text` or `base64`")),
        };
        if let Some(other) = files.iter().find(|other| conflicts(&other.name, &file.name)) {
            let message = format!(
                "{:?} and {:?} conflict: they are equal, or one would have to be a folder",
                other.name, file.name
            );
            return Err(wrong(&field, &message));
        }
        files.push(InputFile { name: file.name, content });
    }
    let bytes: u64 = files.iter().map(|file| file.content.len() as u64).sum();
    if bytes > max_bytes {
        let message =
            format!("code and files have {bytes} bytes, but the policy of this machine allows {max_bytes}");
        return Err(wrong("files", &message));
    }
    Ok(files)
}

/// Checks that a path stays within the folder.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err("a name must have 1 to 1024 bytes");
    }
    if name.contains('\0') {
        return Err("a name must not contain U+0000");
    }
    let parts: Vec<Component<'_>> = Path::new(name).components().collect();
    if !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
        return Err("a name must be a path within the folder, without `..` and without a leading `/`");
    }
    // Names that the system would normalize to another name.
    if name.split('/').any(|part| part.is_empty() || part == "." || part.len() > MAX_COMPONENT) {
        return Err("a path component must have 1 to 255 bytes and must not be `.`");
    }
    Ok(())
}

/// Whether two names are equal, or one would have to be a folder for the other.
fn conflicts(one: &str, other: &str) -> bool {
    let within =
        |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    one == other || within(one, other) || within(other, one)
}

/// An error about one argument.
pub(super) fn wrong(field: &str, message: &str) -> CallError {
    arguments::invalid(CODE_EXEC, vec![json!({ "path": format!("/{field}"), "message": message })])
}

#[cfg(test)]
mod tests;
