//! `plexus tools new`: a user-defined tool to be filled in, on this machine.

use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;

use anyhow::Context as _;
use plexus_kit::private_file;
use plexus_tools::custom;
use serde_json::json;

use crate::commands::{Invocation, config};
use crate::failure::{Exit, Failure};

/// Valid as it is: it gives back what it was given.
const PROGRAM: &str = r#"#!/bin/sh
# The arguments come as one line of JSON on standard input. What is written to standard output is the result.
# Standard error is shown when this fails, which it does with any exit code but 0.
read -r arguments
printf '{"received": %s}\n' "$arguments"
"#;

pub(super) fn run(name: &str, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    custom::check_name(name).map_err(|why| {
        Failure::new(Exit::Usage, format!("{name:?} cannot be the name of a tool: it {why}"))
    })?;
    let config =
        config::load(None, invocation).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let folder = config.tools.dir.join(name);
    if folder.exists() {
        return Err(Failure::new(Exit::Failed, format!("there is already {}", folder.display())).into());
    }
    let manifest = json!({
        "description": "Says back what it was given. Replace this with what your tool does and when to use it.",
        "command": "run.sh",
        "input_schema": {
            "type": "object",
            "properties": { "text": { "type": "string", "description": "What to say back." } },
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
    let runnable = std::fs::Permissions::from_mode(0o700);
    fs_err::set_permissions(&program, runnable).with_context(|| format!("cannot make {name} runnable"))?;
    let out = &invocation.out;
    if out.json() {
        let made = json!({ "name": name, "manifest": file.display().to_string(), "program": program.display().to_string() });
        out.json_line(&made.to_string())?;
        return Ok(Exit::Ok.into());
    }
    out.line(&file.display().to_string())?;
    out.line(&program.display().to_string())?;
    out.note(&format!(
        "Edit them, try it with `plexus tools test {name} --arg text=hello`, and switch it on with `plexus tools enable {name}`."
    ));
    Ok(Exit::Ok.into())
}
