//! What a caller of `code_exec` may say.

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

/// How long a snippet takes at most, if nothing is said.
pub(super) const DEFAULT_TIME: Duration = Duration::from_secs(60);
/// How long it can be told to take; the policy of the machine may allow less.
pub(super) const LONGEST: Duration = Duration::from_secs(3_600);
/// Files that are given to it.
const FILES: usize = 256;
/// Bytes of a name, and of a part of it, which is what file systems have room for.
const NAME: usize = 1024;
const PART: usize = 255;

/// As agents call them in tools of their own.
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
    /// The program itself.
    #[schemars(length(min = 1))]
    pub(super) code: String,
    /// Files to put into its folder before it runs.
    pub(super) files: Option<Vec<GivenFile>>,
    /// Arguments of the program.
    pub(super) args: Option<Vec<String>>,
    /// Its whole standard input; without it there is none.
    pub(super) stdin: Option<String>,
    /// Environment variables to add.
    pub(super) env: Option<BTreeMap<String, String>>,
    /// Killed after this time (default 60). The machine may allow less.
    #[schemars(range(min = 1, max = 3_600))]
    pub(super) timeout_seconds: Option<u64>,
    /// Which files of its folder to give back: names, `*` stands for any text. Without it: those that are new or changed.
    pub(super) collect: Option<Vec<String>>,
}

/// A file by its name, with either `text` or `base64`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenFile {
    /// Path within the folder, such as `data/in.csv`.
    pub(super) name: String,
    pub(super) text: Option<String>,
    pub(super) base64: Option<String>,
}

/// A file that can be put into the folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// The files that are to be there, the program among them.
pub(super) fn files(args: &mut Args, room: u64) -> Result<Vec<Given>, CallError> {
    let given = args.files.take().unwrap_or_default();
    if given.len() > FILES {
        return Err(wrong("files", &format!("at most {FILES} files can be given at once")));
    }
    let script = args.language.script(&args.code);
    let mut files =
        vec![Given { name: script.to_owned(), content: std::mem::take(&mut args.code).into_bytes() }];
    for file in given {
        let field = format!("files/{}", files.len() - 1);
        check_name(&file.name).map_err(|why| wrong(&field, &format!("{:?}: {why}", file.name)))?;
        if file.name == script {
            let message = format!("{script:?} is the name of the code itself; give the file another one");
            return Err(wrong(&field, &message));
        }
        let content = match (file.text, file.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => STANDARD
                .decode(text.trim())
                .map_err(|error| wrong(&field, &format!("{:?}: this is no base64: {error}", file.name)))?,
            _ => return Err(wrong(&field, "give either `text` or `base64`")),
        };
        if let Some(other) = files.iter().find(|other| clash(&other.name, &file.name)) {
            let message = format!("{:?} and {:?} cannot both be there", other.name, file.name);
            return Err(wrong(&field, &message));
        }
        files.push(Given { name: file.name, content });
    }
    let bytes: u64 = files.iter().map(|file| file.content.len() as u64).sum();
    if bytes > room {
        let message =
            format!("{bytes} bytes of code and files, and the policy of this machine allows {room}");
        return Err(wrong("files", &message));
    }
    Ok(files)
}

/// A path that leads downwards from the folder and nowhere else.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > NAME {
        return Err("a name has 1 to 1024 bytes");
    }
    if name.contains('\0') {
        return Err("a name does not contain U+0000");
    }
    let parts: Vec<Component<'_>> = Path::new(name).components().collect();
    if !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
        return Err("a name is a path within the folder, without `..` and without a `/` at its beginning");
    }
    // What the system would read as another name.
    if name.split('/').any(|part| part.is_empty() || part == "." || part.len() > PART) {
        return Err("a part of a path has 1 to 255 bytes and is not `.`");
    }
    Ok(())
}

/// The same file, or one that would have to be the other's folder.
fn clash(one: &str, other: &str) -> bool {
    let within =
        |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    one == other || within(one, other) || within(other, one)
}

/// One thing that is wrong with the arguments.
pub(super) fn wrong(field: &str, message: &str) -> CallError {
    arguments::invalid(CODE_EXEC, vec![json!({ "path": format!("/{field}"), "message": message })])
}

#[cfg(test)]
mod tests;
