//! References of other programs, written as they are written here.
//!
//! Claude Code has `${NAME}` and `${NAME:-default}`; Cursor and VS Code have `${env:NAME}`, `${userHome}`, variables of
//! the open folder, and VS Code asks for `${input:id}`. A `$NAME` without braces is plain text to all of them.

use plexus_kit::reference::{Part, is_variable_name, parts};

use super::form::Inputs;

/// What only makes sense where a folder and a file are open.
const OF_EDITORS: [&str; 13] = [
    "workspaceFolder",
    "workspaceFolderBasename",
    "workspaceRoot",
    "cwd",
    "execPath",
    "file",
    "fileBasename",
    "fileBasenameNoExtension",
    "fileDirname",
    "fileExtname",
    "fileWorkspaceFolder",
    "relativeFile",
    "relativeFileDirname",
];

/// The text as it is written here, or why that cannot be done.
pub(super) fn translated(text: &str, inputs: &Inputs) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            // Nobody else takes the meaning from `${` by doubling the `$`.
            Part::Text("${") => whole.push_str("$${"),
            Part::Text(text) => whole.push_str(text),
            Part::Reference(reference) => whole.push_str(&reference_here(reference, inputs)?),
            Part::Open(text) => whole.push_str(&text.replace("${", "$${")),
        }
    }
    Ok(whole)
}

fn reference_here(reference: &str, inputs: &Inputs) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    Ok(match (name.split_once(':'), name) {
        (_, "userHome") => "${env:HOME}".to_owned(),
        (_, "pathSeparator" | "/") => "/".to_owned(),
        (_, name) if OF_EDITORS.contains(&name) => return Err(of_editor(name)),
        (Some(("env", variable)), _) if is_variable_name(variable) => format!("${{{reference}}}"),
        (Some(("input", id)), _) => return Err(of_input(id, inputs)),
        // Ours already.
        (Some(("file", _)), _) => format!("${{{reference}}}"),
        (Some(("command" | "config" | "workspaceFolder", _)), name) => return Err(of_editor(name)),
        (None, name) if is_variable_name(name) => match default {
            Some(default) => format!("${{env:{name}:-{default}}}"),
            None => format!("${{env:{name}}}"),
        },
        // Plain text to all of them.
        _ => format!("$${{{reference}}}"),
    })
}

fn of_editor(name: &str) -> String {
    format!("asks for `${{{name}}}`, which only an editor knows; write what it stands for")
}

fn of_input(id: &str, inputs: &Inputs) -> String {
    let variable: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let variable = if is_variable_name(&variable) { variable } else { format!("INPUT_{variable}") };
    let about = inputs.get(id).filter(|about| !about.is_empty());
    let about = about.map_or_else(String::new, |about| format!(" ({about})"));
    format!(
        "asks a person for `${{input:{id}}}`{about}, which a hub cannot; write `${{env:{variable}}}` and set that \
         variable where the hub is started"
    )
}
