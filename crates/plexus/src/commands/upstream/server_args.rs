//! The arguments that describe a server on the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure};
use crate::output::warning;
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// URL of a server that is already running
    pub(super) url: Option<String>,
    /// Header of every request to it, such as 'Authorization: Bearer ${env:NAME}' (repeatable)
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Environment variable of its process, such as 'API_KEY=${file:/run/secrets/key}' (repeatable)
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Working folder of its process
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Transport to connect with [default: determined by the URL or the command]
    #[arg(long, value_parser = transports())]
    transport: Option<String>,
    /// Command that starts it, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

fn transports() -> PossibleValuesParser {
    PossibleValuesParser::new([
        PossibleValue::new("stdio"),
        PossibleValue::new("streamable_http").alias("http").alias("streamable-http"),
        PossibleValue::new("sse"),
    ])
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected 'Name: value'")?;
    match name.trim() {
        "" => Err("the name before the colon is empty".to_owned()),
        name => Ok((name.to_owned(), value.trim().to_owned())),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        None | Some(("", _)) => Err("expected NAME=VALUE".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
    }
}

impl ServerArgs {
    /// Whether any argument that describes a server was given.
    pub(super) fn is_given(&self) -> bool {
        let Self { url, headers, env, cwd, transport, command } = self;
        url.is_some()
            || cwd.is_some()
            || transport.is_some()
            || !(headers.is_empty() && env.is_empty() && command.is_empty())
    }

    /// The content of the server's file.
    ///
    /// `subcommand` is the subcommand with the name of the server, for hints.
    pub(super) fn document(self, subcommand: &str) -> anyhow::Result<Map<String, Value>> {
        let Self { url, headers, env, cwd, transport, command } = self;
        let mut document = Map::new();
        if let Some(word) = url.as_ref().filter(|url| !is_url(url)) {
            let words: Vec<&str> = std::iter::once(word).chain(&command).map(String::as_str).collect();
            return Err(command_without_separator(subcommand, &words));
        }
        for (name, value) in headers.iter().filter(|(_, value)| is_empty_credential(value)) {
            warning(&format!(
                "the header {name} has the value {value:?}, which contains no credential; put ${{…}} in single quotes, \
                 because a shell expands it otherwise"
            ));
        }
        match (url, command.split_first()) {
            (Some(_), Some(_)) => return Err(usage("give a URL or a command, not both")),
            (None, None) => {
                return Err(usage("give the URL of the server, or the command that starts it after --"));
            }
            (Some(_), None) if !env.is_empty() || cwd.is_some() => {
                return Err(usage("--env and --cwd require a server that is started by a command"));
            }
            (None, Some(_)) if !headers.is_empty() => {
                return Err(usage("--header requires a server with a URL"));
            }
            (Some(url), None) => {
                document.insert("url".to_owned(), json!(url));
                insert_pairs(&mut document, "headers", headers);
            }
            (None, Some((program, args))) => {
                for word in args.iter().filter(|word| cwd.is_none() && is_file_here(word)) {
                    warning(&format!(
                        "{word} is a file in this folder, but the hub starts servers in another folder: pass its full \
                         path, or --cwd . to run the server here"
                    ));
                }
                document.insert("command".to_owned(), json!(absolute_program(program)));
                if !args.is_empty() {
                    document.insert("args".to_owned(), json!(args));
                }
                insert_pairs(&mut document, "env", env);
                if let Some(cwd) = cwd {
                    document.insert("cwd".to_owned(), json!(absolute(&cwd)));
                }
            }
        }
        if let Some(transport) = transport {
            let transport = if transport.ends_with("http") { "streamable_http" } else { &transport };
            document.insert("transport".to_owned(), json!(transport));
        }
        Ok(document)
    }
}

/// Whether a word looks like a URL.
fn is_url(word: &str) -> bool {
    word.contains("://")
}

/// Whether a header has no value, or only the scheme of a credential.
fn is_empty_credential(value: &str) -> bool {
    ["", "bearer", "basic", "token"].contains(&value.trim().to_ascii_lowercase().as_str())
}

/// The error for a command in the position of the URL.
fn command_without_separator(subcommand: &str, command: &[&str]) -> anyhow::Error {
    let program = command.first().copied().unwrap_or_default();
    let shown: Vec<String> = command.iter().map(|word| shell::name(word)).collect();
    Failure::new(Exit::Usage, format!("{program:?} is not a URL; the command of a server must follow --"))
        .hint(format!("plexus upstream {subcommand} -- {}", shown.join(" ")))
        .into()
}

/// The error for a command line that gives a server's command without `--` before it; none for any other command line.
pub(super) fn missing_separator(words: &[String]) -> Option<anyhow::Error> {
    if words.iter().any(|word| word == "--") {
        return None;
    }
    let at = words.iter().position(|word| word == "upstream")?;
    let [verb, name, rest @ ..] = words.get(at + 1..)? else { return None };
    if !["add", "test"].contains(&verb.as_str()) || name.starts_with('-') {
        return None;
    }
    let mut start = 0;
    while let Some(word) = rest.get(start).filter(|word| word.starts_with('-')) {
        let has_no_value = word.contains('=')
            || ["--lazy", "--disabled", "--json", "--allow-command"].contains(&word.as_str());
        start += if has_no_value { 1 } else { 2 };
    }
    let (flags, command) = (rest.get(..start)?, rest.get(start..)?);
    let program = command.first()?;
    if is_url(program) {
        return None;
    }
    let subcommand: Vec<String> =
        [verb, name].into_iter().chain(flags).map(|word| shell::name(word)).collect();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    Some(command_without_separator(&subcommand.join(" "), &command))
}

fn insert_pairs(document: &mut Map<String, Value>, key: &str, pairs: Vec<(String, String)>) {
    if !pairs.is_empty() {
        let pairs: Map<String, Value> =
            pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        document.insert(key.to_owned(), Value::Object(pairs));
    }
}

/// Makes the path of a program absolute, because the hub runs in another folder. A bare name is kept; the hub looks
/// it up in its `PATH`.
fn absolute_program(program: &str) -> String {
    if program.contains('/') { absolute(Path::new(program)) } else { program.to_owned() }
}

/// Whether a word is the relative path of an existing file.
fn is_file_here(word: &str) -> bool {
    !word.starts_with('-') && Path::new(word).is_relative() && Path::new(word).is_file()
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn usage(message: &str) -> anyhow::Error {
    Failure::new(Exit::Usage, message).hint("see `plexus upstream add --help`").into()
}

#[cfg(test)]
mod tests;
