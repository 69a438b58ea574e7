//! opencode: a configuration in an environment variable, which overrides all others key by key.

use std::io;

use serde_json::{Value, json};

use super::super::AgentKind;
use super::{AgentSetup, InjectedConfig, SERVER, expand_home, headers, merge};

const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";

pub(super) fn inject(setup: &AgentSetup<'_>) -> io::Result<InjectedConfig> {
    let mut injected = InjectedConfig::default();
    let mut config = match setup.environment.get_by_name(CONTENT) {
        None => json!({}),
        // Keep the user's own content.
        Some(existing) => plexus_kit::syntax::json(existing).map_err(|e| {
            io::Error::other(format!("{CONTENT} is set but is not JSON, so the hub cannot be added: {e}"))
        })?,
    };
    let settings = setup.settings;
    let mut ours = json!({});
    if let Some(hub) = setup.hub {
        let key = format!("{{env:{}}}", hub.key_variable);
        ours["mcp"][SERVER] = json!({
            "type": "remote", "url": hub.url, "enabled": true, "oauth": false, "headers": headers(setup, &key),
        });
    }
    if let Some(model) = &settings.model {
        ours["model"] = json!(model);
    }
    if let Some(prompt) = setup.system_prompt {
        let file = setup.folder.write_file("system-prompt.txt", prompt)?;
        ours["instructions"] = appended(&config["instructions"], [file.display().to_string()]);
    }
    if let Some(skills) = settings.skills.as_deref().filter(|skills| !skills.is_empty()) {
        let folders = skills.iter().map(|skill| expand_home(skill, setup.environment).display().to_string());
        ours["skills"]["paths"] = appended(&config["skills"]["paths"], folders);
    }
    for (what, set) in [
        ("an effort", settings.effort.is_some()),
        ("an approval mode", settings.approval_mode.is_some()),
        ("a status line", settings.status_line == Some(true)),
    ] {
        if set {
            injected.note_unsupported(AgentKind::Opencode, what);
        }
    }
    if ours != json!({}) {
        merge(&mut config, ours);
        injected.env(CONTENT, config.to_string());
    }
    Ok(injected)
}

/// The list with `more` appended.
fn appended(list: &Value, more: impl IntoIterator<Item = String>) -> Value {
    let mut list = list.as_array().cloned().unwrap_or_default();
    list.extend(more.into_iter().map(Value::from));
    Value::Array(list)
}
