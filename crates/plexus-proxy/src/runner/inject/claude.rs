//! Claude Code: `--mcp-config`, which names the variable with the credential, and a session id chosen by the runner.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use plexus_kit::{Environment, env};
use serde_json::json;
use uuid::Uuid;

use super::{
    AgentConversation, AgentSetup, InjectedConfig, common_config, expand_home, has, is_uuid, options, value,
};

/// Subcommands without a conversation.
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
const INFO: [&str; 4] = ["--help", "-h", "--version", "-v"];
const RESUME: [&str; 2] = ["--resume", "-r"];
/// Options that resume a conversation whose id is not known in advance.
const RESUME_UNKNOWN: [&str; 4] = ["--continue", "-c", "--from-pr", "--teleport"];

/// Whether the arguments start no conversation.
fn has_no_conversation(args: &[OsString]) -> bool {
    let first = args.first().and_then(|arg| arg.to_str()).unwrap_or_default();
    COMMANDS.contains(&first) || options(args).any(|arg| INFO.contains(&arg))
}

pub(super) fn conversation(
    args: &[OsString],
    name: Option<&str>,
    run: &str,
) -> Result<(AgentConversation, Option<String>), String> {
    let session_id = value(args, &["--session-id"]);
    let resumed = value(args, &RESUME);
    let forks = has(args, &["--fork-session"]);
    let resumes = resumed.is_some() || has(args, &RESUME_UNKNOWN);
    if let Some(name) = name {
        if session_id.is_some() || (resumes && !forks) {
            return Err(
                "--name and the arguments of claude both choose a session; give one of them".to_owned()
            );
        }
        if !is_uuid(name) {
            return Err(format!(
                "--name {name:?} is not a UUID, which claude requires as the name of a session"
            ));
        }
        return Ok((AgentConversation::Known(name.to_owned()), None));
    }
    Ok(match (session_id, resumed) {
        (Some(id), _) if is_uuid(id) => (AgentConversation::Known(id.to_owned()), None),
        (None, Some(id)) if is_uuid(id) && !forks => (AgentConversation::Known(id.to_owned()), None),
        (None, _) if !resumes || forks => (AgentConversation::Known(Uuid::new_v4().to_string()), None),
        _ => {
            let id = format!("run-{run}");
            let note = format!(
                "the session that claude resumes is not known, so its calls are recorded under claude:{id}; use \
                --resume ID to record them under the session's own id"
            );
            (AgentConversation::Known(id), Some(note))
        }
    })
}

pub(super) fn inject(setup: &AgentSetup<'_>) -> io::Result<InjectedConfig> {
    let mut injected = InjectedConfig::default();
    if has_no_conversation(setup.args) {
        return Ok(injected);
    }
    if let Some(hub) = setup.hub {
        let file = setup.folder.write_file("mcp.json", &common_config(setup, hub).to_string())?;
        // With `=`, because the option accepts several values and would consume the user's prompt.
        injected.arg(joined("--mcp-config=", file.as_os_str()));
    }
    set_session(setup, &mut injected);
    let settings = setup.settings;
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
    if let Some(prompt) = setup.system_prompt {
        let file = setup.folder.write_file("system-prompt.txt", prompt)?;
        injected.arg(joined("--append-system-prompt-file=", file.as_os_str()));
    }
    if let Some(skills) = settings.skills.as_deref().filter(|skills| !skills.is_empty()) {
        skills_plugin(setup, skills, &mut injected)?;
    }
    if settings.status_line == Some(true) {
        status_line(setup, &mut injected)?;
    }
    Ok(injected)
}

/// Sets the session id, unless the user's arguments choose the session.
fn set_session(setup: &AgentSetup<'_>, injected: &mut InjectedConfig) {
    let AgentConversation::Known(id) = setup.conversation else { return };
    let chosen_by_user = has(setup.args, &["--session-id"])
        || ((has(setup.args, &RESUME) || has(setup.args, &RESUME_UNKNOWN))
            && !has(setup.args, &["--fork-session"]));
    if !chosen_by_user && is_uuid(id) {
        // A session id can be used once; a restarted agent resumes it.
        let option = if setup.resume { "--resume" } else { "--session-id" };
        injected.arg(format!("{option}={id}"));
    }
}

/// Skills are passed as a plugin, which can be loaded from any folder for one session.
fn skills_plugin(setup: &AgentSetup<'_>, skills: &[String], injected: &mut InjectedConfig) -> io::Result<()> {
    let about = json!({ "name": "plexus", "description": "Skills of a Plexus profile", "version": "1.0.0" });
    setup.folder.write_file("plugin/.claude-plugin/plugin.json", &about.to_string())?;
    let folder = setup.folder.path().join("plugin/skills");
    plexus_kit::private_file::create_dir(&folder)?;
    for skill in skills {
        let path = expand_home(skill, setup.environment);
        let name = path.file_name().filter(|_| path.is_absolute() && path.join("SKILL.md").is_file());
        let Some(name) = name else {
            injected
                .notes
                .push(format!("the skill {skill:?} of the profile is left out: its SKILL.md does not exist"));
            continue;
        };
        let link = folder.join(name);
        if fs_err::symlink_metadata(&link).is_err() {
            fs_err::os::unix::fs::symlink(&path, link)?;
        }
    }
    injected.arg(joined("--plugin-dir=", setup.folder.path().join("plugin").as_os_str()));
    Ok(())
}

fn status_line(setup: &AgentSetup<'_>, injected: &mut InjectedConfig) -> io::Result<()> {
    if has(setup.args, &["--settings"]) {
        let note = "the profile's status line is left out because the arguments of claude contain --settings";
        injected.notes.push(note.to_owned());
        return Ok(());
    }
    let text = plexus_kit::shell::word(&format!("plexus · run {}", setup.run));
    let settings = json!({ "statusLine": { "type": "command", "command": format!("printf %s {text}") } });
    let file = setup.folder.write_file("settings.json", &settings.to_string())?;
    injected.arg(joined("--settings=", file.as_os_str()));
    Ok(())
}

fn joined(option: &str, value: &std::ffi::OsStr) -> OsString {
    let mut arg = OsString::from(option);
    arg.push(value);
    arg
}

/// Whether a transcript of this session exists.
pub(super) fn has_transcript(session: &str, environment: &Environment) -> bool {
    let folder = environment.get_by_name("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let home = || environment.get(env::HOME).map(|home| Path::new(home).join(".claude"));
    let Some(folder) = folder.or_else(home).filter(|_| is_uuid(session)) else { return false };
    let projects = fs_err::read_dir(folder.join("projects")).into_iter().flatten().flatten();
    projects.map(|project| project.path().join(format!("{session}.jsonl"))).any(|file| file.is_file())
}
