//! Codex: `-c` overrides for one run. It names its thread in every call.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plexus_kit::syntax::Format;
use plexus_kit::{Environment, env};

use super::super::AgentKind;
use super::{AgentConversation, AgentSetup, InjectedConfig, SERVER, has, is_uuid, options};

/// Name of the hub's entry if its normal name is taken.
const ALTERNATIVE_SERVER: &str = "plexus_run";
/// Keeps an interactive Codex from handing the conversation to the user's daemon, which was started earlier and does
/// not have the variables of the run.
const NO_DAEMON: &str = "--no-daemon";
/// Subcommands that use no daemon or have no conversation.
const COMMANDS: [&str; 24] = [
    "exec",
    "e",
    "review",
    "agents",
    "login",
    "logout",
    "mcp",
    "plugin",
    "app-server",
    "remote-control",
    "completion",
    "update",
    "doctor",
    "sandbox",
    "debug",
    "apply",
    "a",
    "queue",
    "archive",
    "delete",
    "cloud",
    "exec-server",
    "features",
    "help",
];

/// Whether it uses the terminal interactively.
pub(crate) fn is_interactive(args: &[OsString]) -> bool {
    !options(args).any(|arg| COMMANDS.contains(&arg) || ["--help", "-h", "--version", "-V"].contains(&arg))
}

pub(super) fn conversation(
    args: &[OsString],
    name: Option<&str>,
) -> Result<(AgentConversation, Option<String>), String> {
    if name.is_some() {
        return Err("codex names its threads itself; omit --name".to_owned());
    }
    let mut words = options(args).skip_while(|word| *word != "resume").skip(1);
    match words.find(|word| is_uuid(word)) {
        Some(thread) => Ok((AgentConversation::Known(thread.to_owned()), None)),
        None => Ok((AgentConversation::ChosenByAgent, None)),
    }
}

pub(super) fn inject(setup: &AgentSetup<'_>) -> InjectedConfig {
    let mut injected = InjectedConfig::default();
    let set = |injected: &mut InjectedConfig, key: &str, value: &str| {
        injected.arg("-c");
        injected.arg(format!("{key}={}", toml_string(value)));
    };
    let settings = setup.settings;
    if let Some(hub) = setup.hub {
        let server = match has_command(setup.environment) {
            false => SERVER.to_owned(),
            true => {
                injected.arg("-c");
                injected.arg(format!("mcp_servers.{SERVER}.enabled=false"));
                let note = format!(
                    "the server {SERVER} in the configuration of codex is a command and is disabled in this run; the hub \
                    is named {ALTERNATIVE_SERVER}"
                );
                injected.notes.push(note);
                ALTERNATIVE_SERVER.to_owned()
            }
        };
        set(&mut injected, &format!("mcp_servers.{server}.url"), &hub.url);
        set(&mut injected, &format!("mcp_servers.{server}.bearer_token_env_var"), &hub.key_variable);
        if settings.allow_tools == Some(true) {
            set(&mut injected, &format!("mcp_servers.{server}.default_tools_approval_mode"), "approve");
        }
    }
    for (key, value) in [
        ("model", settings.model.as_deref()),
        ("model_reasoning_effort", settings.effort.as_deref()),
        ("approval_policy", settings.approval_mode.as_deref()),
        ("developer_instructions", setup.system_prompt),
    ] {
        if let Some(value) = value {
            set(&mut injected, key, value);
        }
    }
    if settings.skills.as_deref().is_some_and(|skills| !skills.is_empty()) {
        injected.note_unsupported(AgentKind::Codex, "skills");
    }
    if settings.status_line == Some(true) {
        injected.note_unsupported(AgentKind::Codex, "a status line");
    }
    if setup.hub.is_some()
        && is_interactive(setup.args)
        && !has(setup.args, &[NO_DAEMON, "--remote"])
        && supports_no_daemon(setup.program)
    {
        injected.arg(NO_DAEMON);
    }
    injected
}

/// Whether the user has a server with the hub's name that is a command. It cannot be overridden with a URL: overrides
/// are merged key by key, and Codex rejects a server with both.
fn has_command(environment: &Environment) -> bool {
    let home = environment.get_by_name("CODEX_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(environment.get(env::HOME)?).join(".codex")));
    let project = std::env::current_dir().ok().map(|folder| folder.join(".codex"));
    home.into_iter().chain(project).any(|folder| {
        let text = fs_err::read_to_string(folder.join("config.toml")).unwrap_or_default();
        let config = Format::Toml.parse(&text).unwrap_or_default();
        config.get("mcp_servers").is_some_and(|servers| servers[SERVER]["command"].is_string())
    })
}

/// Whether this release has the option; older ones have no daemon and reject unknown options.
fn supports_no_daemon(program: &Path) -> bool {
    let help_output = Command::new(program).arg("--help").stdin(Stdio::null()).stderr(Stdio::null()).output();
    help_output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(NO_DAEMON))
}

/// A TOML string, which equals a JSON string except for one character.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
