//! Gemini CLI: a file of defaults, which its settings of every other layer are put over.
//!
//! There is no other way to add to what it has for one run. Releases from 2026 on look whose the file is, and take it only
//! where it and every folder above it are root's and nobody else's to write.

use std::ffi::OsString;
use std::io;

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::AgentKind;
use super::{Conversation, Injected, SERVER, Wiring, has, headers, is_uuid, merge, options, value};

const DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
/// Where they are when the variable is not set.
const DEFAULTS_FILE: &str = "/etc/gemini-cli/system-defaults.json";
const COMMANDS: [&str; 8] = ["mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"];
const OTHERS: [&str; 6] =
    ["--resume", "-r", "--session-file", "--list-sessions", "--delete-session", "--acp"];

fn is_aside(args: &[OsString]) -> bool {
    let first = args.first().and_then(|arg| arg.to_str()).unwrap_or_default();
    COMMANDS.contains(&first)
        || options(args)
            .any(|arg| ["--help", "-h", "--version", "-v", "--list-extensions", "-l"].contains(&arg))
}

pub(super) fn conversation(
    args: &[OsString],
    name: Option<&str>,
    run: &str,
) -> Result<(Conversation, Option<String>), String> {
    let id = match (value(args, &["--session-id"]), name) {
        (Some(_), Some(_)) => {
            return Err(
                "--name and the arguments of gemini both choose a session; give one of them".to_owned()
            );
        }
        (Some(id), None) if !id.is_empty() => id.to_owned(),
        (_, Some(name)) => name.to_owned(),
        _ if has(args, &OTHERS) || is_aside(args) => format!("run-{run}"),
        _ => Uuid::new_v4().to_string(),
    };
    Ok((Conversation::Named(id), None))
}

pub(super) fn inject(wiring: &Wiring<'_>) -> io::Result<Injected> {
    let mut injected = Injected::default();
    let settings = wiring.settings;
    if let Some(wires) = wiring.wires {
        let key = format!("${{{}}}", wires.key_variable);
        let mut server = json!({ "httpUrl": wires.url, "headers": headers(wiring, &key) });
        if settings.allow_tools == Some(true) {
            server["trust"] = json!(true);
        }
        let mut defaults = theirs(wiring)?;
        merge(&mut defaults, json!({ "mcpServers": { SERVER: server } }));
        let file = wiring.scratch.file("gemini-defaults.json", &defaults.to_string())?;
        injected.env(DEFAULTS, file.display().to_string());
        if !rustix::process::geteuid().is_root() {
            let note =
                "newer releases of gemini take such a file from root only, and say so when they skip it";
            injected.notes.push(note.to_owned());
        }
    }
    if is_aside(wiring.args) {
        return Ok(injected);
    }
    if let Some(id) = wiring.conversation.id().filter(|id| is_uuid(id))
        && !has(wiring.args, &["--session-id"])
        && !has(wiring.args, &OTHERS)
        && !wiring.again
    {
        injected.arg(format!("--session-id={id}"));
    }
    for (option, value) in [("--model", &settings.model), ("--approval-mode", &settings.approval_mode)] {
        if let Some(value) = value {
            injected.arg(format!("{option}={value}"));
        }
    }
    for (what, set) in [
        ("an effort", settings.effort.is_some()),
        ("a system prompt", wiring.system_prompt.is_some()),
        ("skills", settings.skills.as_deref().is_some_and(|skills| !skills.is_empty())),
        ("a status line", settings.status_line == Some(true)),
    ] {
        if set {
            injected.cannot(AgentKind::Gemini, what);
        }
    }
    Ok(injected)
}

/// The defaults that ours take the place of: what is in them stays.
fn theirs(wiring: &Wiring<'_>) -> io::Result<Value> {
    let path = wiring.environment.named(DEFAULTS).unwrap_or(DEFAULTS_FILE);
    let text = match fs_err::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(json!({})),
        Err(e) => return Err(e),
    };
    match plexus_kit::syntax::json(&text) {
        Ok(Value::Object(defaults)) => Ok(Value::Object(defaults)),
        _ => Err(io::Error::other(format!("{path} is not an object of JSON, so nothing can be added to it"))),
    }
}
