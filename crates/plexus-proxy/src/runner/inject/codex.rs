//! Codex: `-c` overrides for one run. It tells the hub its thread with every call.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plexus_kit::syntax::Format;
use plexus_kit::{Environment, env};

use super::super::AgentKind;
use super::{Conversation, Injected, SERVER, Wiring, has, is_uuid, options};

/// What the hub is called where its own name is taken.
const INSTEAD: &str = "plexus_run";
/// What an interactive Codex takes to be a process of its own: otherwise it may hand the conversation to a server of its
/// user's that was started earlier and has none of the run's variables.
const OWN_PROCESS: &str = "--no-daemon";
/// Commands that never talk to such a server, or hold no conversation.
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

/// Whether it takes the terminal.
pub(crate) fn is_interactive(args: &[OsString]) -> bool {
    !options(args).any(|arg| COMMANDS.contains(&arg) || ["--help", "-h", "--version", "-V"].contains(&arg))
}

pub(super) fn conversation(
    args: &[OsString],
    name: Option<&str>,
) -> Result<(Conversation, Option<String>), String> {
    if name.is_some() {
        return Err("codex names its threads itself; leave --name out".to_owned());
    }
    let mut words = options(args).skip_while(|word| *word != "resume").skip(1);
    match words.find(|word| is_uuid(word)) {
        Some(thread) => Ok((Conversation::Known(thread.to_owned()), None)),
        None => Ok((Conversation::Told, None)),
    }
}

pub(super) fn inject(wiring: &Wiring<'_>) -> Injected {
    let mut injected = Injected::default();
    let set = |injected: &mut Injected, key: &str, value: &str| {
        injected.arg("-c");
        injected.arg(format!("{key}={}", toml_string(value)));
    };
    let settings = wiring.settings;
    if let Some(wires) = wiring.wires {
        let server = match has_command(wiring.environment) {
            false => SERVER.to_owned(),
            true => {
                injected.arg("-c");
                injected.arg(format!("mcp_servers.{SERVER}.enabled=false"));
                let note = format!(
                    "the server {SERVER} in the configuration of codex is a command, and is off in this run: the hub \
                     is called {INSTEAD}"
                );
                injected.notes.push(note);
                INSTEAD.to_owned()
            }
        };
        set(&mut injected, &format!("mcp_servers.{server}.url"), &wires.url);
        set(&mut injected, &format!("mcp_servers.{server}.bearer_token_env_var"), &wires.key_variable);
        if settings.allow_tools == Some(true) {
            set(&mut injected, &format!("mcp_servers.{server}.default_tools_approval_mode"), "approve");
        }
    }
    for (key, value) in [
        ("model", settings.model.as_deref()),
        ("model_reasoning_effort", settings.effort.as_deref()),
        ("approval_policy", settings.approval_mode.as_deref()),
        ("developer_instructions", wiring.system_prompt),
    ] {
        if let Some(value) = value {
            set(&mut injected, key, value);
        }
    }
    if settings.skills.as_deref().is_some_and(|skills| !skills.is_empty()) {
        injected.cannot(AgentKind::Codex, "skills");
    }
    if settings.status_line == Some(true) {
        injected.cannot(AgentKind::Codex, "a status line");
    }
    if wiring.wires.is_some()
        && is_interactive(wiring.args)
        && !has(wiring.args, &[OWN_PROCESS, "--remote"])
        && knows_own_process(wiring.program)
    {
        injected.arg(OWN_PROCESS);
    }
    injected
}

/// Whether the user has a server of the hub's name that is a command. It cannot be given an address: overrides are put over
/// what is there key by key, and a server with both is refused.
fn has_command(environment: &Environment) -> bool {
    let home = environment.named("CODEX_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(environment.get(env::HOME)?).join(".codex")));
    let project = std::env::current_dir().ok().map(|folder| folder.join(".codex"));
    home.into_iter().chain(project).any(|folder| {
        let text = fs_err::read_to_string(folder.join("config.toml")).unwrap_or_default();
        let config = Format::Toml.parse(&text).unwrap_or_default();
        config.get("mcp_servers").is_some_and(|servers| servers[SERVER]["command"].is_string())
    })
}

/// Whether this release has the option: an older one has no such server, and refuses what it does not know.
fn knows_own_process(program: &Path) -> bool {
    let asked = Command::new(program).arg("--help").stdin(Stdio::null()).stderr(Stdio::null()).output();
    asked.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains(OWN_PROCESS))
}

/// As a string of TOML, which is one of JSON but for a character.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
