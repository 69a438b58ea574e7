//! `plexus tools new`: creates a user-defined tool from a template.

use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;

use anyhow::Context as _;
use plexus_kit::private_file;
use plexus_tools::custom;
use serde_json::json;

use crate::commands::{Invocation, config};
use crate::failure::{Exit, Failure};

/// A valid template, which returns its arguments.
const PROGRAM: &str = r#"#!/bin/sh
# The arguments arrive as one line of JSON on standard input. Standard output is the result.
# Any exit code other than 0 is a failure, for which standard error is shown.
read -r arguments
printf '{"received": %s}\n' "$arguments"
"#;

pub(super) fn run(name: &str, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    custom::check_name(name)
        .map_err(|why| Failure::new(Exit::Usage, format!("{name:?} is not a valid tool name: it {why}")))?;
    let config =
        config::load(None, invocation).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let folder = config.tools.dir.join(name);
    if folder.exists() {
        return Err(Failure::new(Exit::Failed, format!("{} already exists", folder.display())).into());
    }
    let manifest = json!({
        "description": "Returns its arguments. Replace this text: describe what your tool does and when to use it.",
        "command": "run.sh",
        "input_schema": {
            "type": "object",
            "properties": { "text": { "type": "string", "description": "Text to return." } },
            "required": ["text"],
            "additionalProperties": false,
        },
        "timeout": "30s",
        "annotations": { "read_only": true, "open_world": false },
    });
    private_file::create_dir(&folder)?;
    let (file, program) = (folder.join("tool.json"), folder.join("run.sh"));
    private_file::write(&file, format!("{manifest:#}\n").as_bytes())?;
    private_file::write(&program, PROGRAM.as_bytes())?;
    let executable = std::fs::Permissions::from_mode(0o700);
    fs_err::set_permissions(&program, executable)
        .with_context(|| format!("cannot make {name} executable"))?;
    let out = &invocation.out;
    if out.json() {
        let created = json!({ "name": name, "manifest": file.display().to_string(), "program": program.display().to_string() });
        out.json_line(&created.to_string())?;
        return Ok(Exit::Ok.into());
    }
    out.line(&file.display().to_string())?;
    out.line(&program.display().to_string())?;
    out.note(&format!(
        "Edit the files, test the tool with `plexus tools test {name} --arg text=hello`, and enable it with `plexus tools enable {name}`."
    ));
    Ok(Exit::Ok.into())
}
