//! Claude Code: `--mcp-config`, with the credential by the name of its variable, and a session whose id is chosen here.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use plexus_kit::{Environment, env};
use serde_json::json;
use uuid::Uuid;

use super::{Conversation, Injected, Wiring, at_home, common_config, has, is_uuid, options, value};

/// Commands that hold no conversation.
const COMMANDS: [&str; 20] = [
    "agents",
    "attach",
    "auth",
    "auto-mode",
    "doctor",
    "gateway",
    "import",
    "install",
    "logs",
    "mcp",
    "plugin",
    "plugins",
    "purge",
    "respawn",
    "rm",
    "setup-token",
    "stop",
    "kill",
    "update",
    "upgrade",
];
const TELLS: [&str; 4] = ["--help", "-h", "--version", "-v"];
const RESUME: [&str; 2] = ["--resume", "-r"];
/// Ways to go on with a conversation that is found out later.
const OTHERS: [&str; 4] = ["--continue", "-c", "--from-pr", "--teleport"];

/// Whether it only does or tells something, without a conversation.
fn is_aside(args: &[OsString]) -> bool {
    let first = args.first().and_then(|arg| arg.to_str()).unwrap_or_default();
    COMMANDS.contains(&first) || options(args).any(|arg| TELLS.contains(&arg))
}

pub(super) fn conversation(
    args: &[OsString],
    name: Option<&str>,
    run: &str,
) -> Result<(Conversation, Option<String>), String> {
    let theirs = value(args, &["--session-id"]);
    let resumed = value(args, &RESUME);
    let forks = has(args, &["--fork-session"]);
    let goes_on = resumed.is_some() || has(args, &OTHERS);
    if let Some(name) = name {
        if theirs.is_some() || (goes_on && !forks) {
            return Err(
                "--name and the arguments of claude both choose a session; give one of them".to_owned()
            );
        }
        if !is_uuid(name) {
            return Err(format!("--name {name:?} is no UUID, and claude names its sessions by nothing else"));
        }
        return Ok((Conversation::Known(name.to_owned()), None));
    }
    Ok(match (theirs, resumed) {
        (Some(id), _) if is_uuid(id) => (Conversation::Known(id.to_owned()), None),
        (None, Some(id)) if is_uuid(id) && !forks => (Conversation::Known(id.to_owned()), None),
        (None, _) if !goes_on || forks => (Conversation::Known(Uuid::new_v4().to_string()), None),
        _ => {
            let id = format!("run-{run}");
            let note = format!(
                "which session claude goes on with is not known here: its calls are recorded under claude:{id}; \
                 name it with --resume ID to have them under its own"
            );
            (Conversation::Known(id), Some(note))
        }
    })
}

pub(super) fn inject(wiring: &Wiring<'_>) -> io::Result<Injected> {
    let mut injected = Injected::default();
    if is_aside(wiring.args) {
        return Ok(injected);
    }
    if let Some(wires) = wiring.wires {
        let file = wiring.scratch.file("mcp.json", &common_config(wiring, wires).to_string())?;
        // With `=`: the option takes any number of values, and would take the user's prompt for one.
        injected.arg(joined("--mcp-config=", file.as_os_str()));
    }
    session(wiring, &mut injected);
    let settings = wiring.settings;
    for (option, value) in [
        ("--model", &settings.model),
        ("--effort", &settings.effort),
        ("--permission-mode", &settings.approval_mode),
    ] {
        if let Some(value) = value {
            injected.arg(format!("{option}={value}"));
        }
    }
    if settings.allow_tools == Some(true) {
        injected.arg("--allowedTools=mcp__plexus");
    }
    if let Some(prompt) = wiring.system_prompt {
        let file = wiring.scratch.file("system-prompt.txt", prompt)?;
        injected.arg(joined("--append-system-prompt-file=", file.as_os_str()));
    }
    if let Some(skills) = settings.skills.as_deref().filter(|skills| !skills.is_empty()) {
        skills_plugin(wiring, skills, &mut injected)?;
    }
    if settings.status_line == Some(true) {
        status_line(wiring, &mut injected)?;
    }
    Ok(injected)
}

/// Gives the session the id that the hub is told, unless the user's arguments do.
fn session(wiring: &Wiring<'_>, injected: &mut Injected) {
    let Conversation::Known(id) = wiring.conversation else { return };
    let theirs = has(wiring.args, &["--session-id"])
        || ((has(wiring.args, &RESUME) || has(wiring.args, &OTHERS))
            && !has(wiring.args, &["--fork-session"]));
    if !theirs && is_uuid(id) {
        // An id is taken once; what crashed and is started again goes on.
        let option = if wiring.again { "--resume" } else { "--session-id" };
        injected.arg(format!("{option}={id}"));
    }
}

/// Skills come in a plugin, which is loaded for one session from any folder.
fn skills_plugin(wiring: &Wiring<'_>, skills: &[String], injected: &mut Injected) -> io::Result<()> {
    let about = json!({ "name": "plexus", "description": "Skills of a Plexus profile", "version": "1.0.0" });
    wiring.scratch.file("plugin/.claude-plugin/plugin.json", &about.to_string())?;
    let folder = wiring.scratch.path().join("plugin/skills");
    plexus_kit::private_file::create_dir(&folder)?;
    for skill in skills {
        let path = at_home(skill, wiring.environment);
        let name = path.file_name().filter(|_| path.is_absolute() && path.join("SKILL.md").is_file());
        let Some(name) = name else {
            injected
                .notes
                .push(format!("the skill {skill:?} of the profile is left out: there is no SKILL.md"));
            continue;
        };
        let link = folder.join(name);
        if fs_err::symlink_metadata(&link).is_err() {
            fs_err::os::unix::fs::symlink(&path, link)?;
        }
    }
    injected.arg(joined("--plugin-dir=", wiring.scratch.path().join("plugin").as_os_str()));
    Ok(())
}

fn status_line(wiring: &Wiring<'_>, injected: &mut Injected) -> io::Result<()> {
    if has(wiring.args, &["--settings"]) {
        let note =
            "the profile's status line is left out: the arguments of claude name settings of their own";
        injected.notes.push(note.to_owned());
        return Ok(());
    }
    let text = plexus_kit::shell::word(&format!("plexus · run {}", wiring.run));
    let settings = json!({ "statusLine": { "type": "command", "command": format!("printf %s {text}") } });
    let file = wiring.scratch.file("settings.json", &settings.to_string())?;
    injected.arg(joined("--settings=", file.as_os_str()));
    Ok(())
}

fn joined(option: &str, value: &std::ffi::OsStr) -> OsString {
    let mut arg = OsString::from(option);
    arg.push(value);
    arg
}

/// Whether there is a transcript of this session.
pub(super) fn has_begun(session: &str, environment: &Environment) -> bool {
    let folder = environment.named("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let home = || environment.get(env::HOME).map(|home| Path::new(home).join(".claude"));
    let Some(folder) = folder.or_else(home).filter(|_| is_uuid(session)) else { return false };
    let projects = fs_err::read_dir(folder.join("projects")).into_iter().flatten().flatten();
    projects.map(|project| project.path().join(format!("{session}.jsonl"))).any(|file| file.is_file())
}
