//! Gemini CLI: a file of system defaults, which all other layers of settings override.
//!
//! There is no other way to add settings for one run. Releases from 2026 on accept the file only if it and all
//! folders above it are owned by root and not writable by others.

use std::ffi::OsString;
use std::io;

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::AgentKind;
use super::{
    AgentConversation, AgentSetup, InjectedConfig, SERVER, has, headers, is_uuid, merge, options, value,
};

const DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
/// The file that is used if the variable is not set.
const DEFAULTS_FILE: &str = "/etc/gemini-cli/system-defaults.json";
const COMMANDS: [&str; 8] = ["mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"];
/// Options that choose the session, or start none.
const SESSION_OPTIONS: [&str; 6] =
    ["--resume", "-r", "--session-file", "--list-sessions", "--delete-session", "--acp"];

fn has_no_conversation(args: &[OsString]) -> bool {
    let first = args.first().and_then(|arg| arg.to_str()).unwrap_or_default();
    COMMANDS.contains(&first)
        || options(args)
            .any(|arg| ["--help", "-h", "--version", "-v", "--list-extensions", "-l"].contains(&arg))
}

pub(super) fn conversation(
    args: &[OsString],
    name: Option<&str>,
    run: &str,
) -> Result<(AgentConversation, Option<String>), String> {
    let id = match (value(args, &["--session-id"]), name) {
        (Some(_), Some(_)) => {
            return Err(
                "--name and the arguments of gemini both choose a session; give one of them".to_owned()
            );
        }
        (Some(id), None) if !id.is_empty() => id.to_owned(),
        (_, Some(name)) => name.to_owned(),
        _ if has(args, &SESSION_OPTIONS) || has_no_conversation(args) => format!("run-{run}"),
        _ => Uuid::new_v4().to_string(),
    };
    Ok((AgentConversation::Named(id), None))
}

pub(super) fn inject(setup: &AgentSetup<'_>) -> io::Result<InjectedConfig> {
    let mut injected = InjectedConfig::default();
    let settings = setup.settings;
    if let Some(hub) = setup.hub {
        let key = format!("${{{}}}", hub.key_variable);
        let mut server = json!({ "httpUrl": hub.url, "headers": headers(setup, &key) });
        if settings.allow_tools == Some(true) {
            server["trust"] = json!(true);
        }
        let mut defaults = existing_defaults(setup)?;
        merge(&mut defaults, json!({ "mcpServers": { SERVER: server } }));
        let file = setup.folder.write_file("gemini-defaults.json", &defaults.to_string())?;
        injected.env(DEFAULTS, file.display().to_string());
        if !rustix::process::geteuid().is_root() {
            let note = "newer releases of gemini accept a file of system defaults only from root, and report that they ignore it";
            injected.notes.push(note.to_owned());
        }
    }
    if has_no_conversation(setup.args) {
        return Ok(injected);
    }
    if let Some(id) = setup.conversation.id().filter(|id| is_uuid(id))
        && !has(setup.args, &["--session-id"])
        && !has(setup.args, &SESSION_OPTIONS)
        && !setup.resume
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
        ("a system prompt", setup.system_prompt.is_some()),
        ("skills", settings.skills.as_deref().is_some_and(|skills| !skills.is_empty())),
        ("a status line", settings.status_line == Some(true)),
    ] {
        if set {
            injected.note_unsupported(AgentKind::Gemini, what);
        }
    }
    Ok(injected)
}

/// The defaults that would apply otherwise, which are kept.
fn existing_defaults(setup: &AgentSetup<'_>) -> io::Result<Value> {
    let path = setup.environment.get_by_name(DEFAULTS).unwrap_or(DEFAULTS_FILE);
    let text = match fs_err::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(json!({})),
        Err(e) => return Err(e),
    };
    match plexus_kit::syntax::json(&text) {
        Ok(Value::Object(defaults)) => Ok(Value::Object(defaults)),
        _ => Err(io::Error::other(format!("{path} is not a JSON object, so the hub cannot be added to it"))),
    }
}
