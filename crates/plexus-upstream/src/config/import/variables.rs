//! Rewrites variable references of other programs to this format.
//!
//! Claude Code uses `${NAME}` and `${NAME:-default}`; Cursor and VS Code use `${env:NAME}`, `${userHome}` and
//! variables of the open folder; VS Code also prompts for `${input:id}`. A `$NAME` without braces is plain
//! text in all of them.

use plexus_kit::reference::{Part, is_variable_name, parts};

use super::form::Inputs;

/// Variables that only have a value in an editor with an open folder or file.
const EDITOR_VARIABLES: [&str; 13] = [
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

/// The rewritten text, or the reason why a reference cannot be rewritten.
pub(super) fn translated(text: &str, inputs: &Inputs) -> Result<String, String> {
    let mut output = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            // Only this format escapes `${` by doubling the `$`.
            Part::Text("${") => output.push_str("$${"),
            Part::Text(text) => output.push_str(text),
            Part::Reference(reference) => output.push_str(&rewritten_reference(reference, inputs)?),
            Part::Open(text) => output.push_str(&text.replace("${", "$${")),
        }
    }
    Ok(output)
}

fn rewritten_reference(reference: &str, inputs: &Inputs) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    Ok(match (name.split_once(':'), name) {
        (_, "userHome") => "${env:HOME}".to_owned(),
        (_, "pathSeparator" | "/") => "/".to_owned(),
        (_, name) if EDITOR_VARIABLES.contains(&name) => return Err(editor_only(name)),
        (Some(("env", variable)), _) if is_variable_name(variable) => format!("${{{reference}}}"),
        (Some(("input", id)), _) => return Err(needs_prompt(id, inputs)),
        // Already in this format.
        (Some(("file", _)), _) => format!("${{{reference}}}"),
        (Some(("command" | "config" | "workspaceFolder", _)), name) => return Err(editor_only(name)),
        (None, name) if is_variable_name(name) => match default {
            Some(default) => format!("${{env:{name}:-{default}}}"),
            None => format!("${{env:{name}}}"),
        },
        // Plain text in all of the formats.
        _ => format!("$${{{reference}}}"),
    })
}

fn editor_only(name: &str) -> String {
    format!("uses `${{{name}}}`, which only an editor can resolve; write its value instead")
}

fn needs_prompt(id: &str, inputs: &Inputs) -> String {
    let variable: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let variable = if is_variable_name(&variable) { variable } else { format!("INPUT_{variable}") };
    let about = inputs.get(id).filter(|about| !about.is_empty());
    let about = about.map_or_else(String::new, |about| format!(" ({about})"));
    format!(
        "prompts for `${{input:{id}}}`{about}, which a hub cannot do; write `${{env:{variable}}}` and set that \
         variable where the hub is started"
    )
}
