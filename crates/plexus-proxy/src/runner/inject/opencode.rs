//! opencode: a configuration in a variable, which it puts over all others key by key.

use std::io;

use serde_json::{Value, json};

use super::super::AgentKind;
use super::{Injected, SERVER, Wiring, at_home, headers, merge};

const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";

pub(super) fn inject(wiring: &Wiring<'_>) -> io::Result<Injected> {
    let mut injected = Injected::default();
    let mut config = match wiring.environment.named(CONTENT) {
        None => json!({}),
        // What the user has in there stays.
        Some(theirs) => plexus_kit::syntax::json(theirs).map_err(|e| {
            io::Error::other(format!("{CONTENT} is set and is not JSON, so nothing can be added: {e}"))
        })?,
    };
    let settings = wiring.settings;
    let mut ours = json!({});
    if let Some(wires) = wiring.wires {
        let key = format!("{{env:{}}}", wires.key_variable);
        ours["mcp"][SERVER] = json!({
            "type": "remote", "url": wires.url, "enabled": true, "oauth": false, "headers": headers(wiring, &key),
        });
    }
    if let Some(model) = &settings.model {
        ours["model"] = json!(model);
    }
    if let Some(prompt) = wiring.system_prompt {
        let file = wiring.scratch.file("system-prompt.txt", prompt)?;
        ours["instructions"] = added(&config["instructions"], [file.display().to_string()]);
    }
    if let Some(skills) = settings.skills.as_deref().filter(|skills| !skills.is_empty()) {
        let folders = skills.iter().map(|skill| at_home(skill, wiring.environment).display().to_string());
        ours["skills"]["paths"] = added(&config["skills"]["paths"], folders);
    }
    for (what, set) in [
        ("an effort", settings.effort.is_some()),
        ("an approval mode", settings.approval_mode.is_some()),
        ("a status line", settings.status_line == Some(true)),
    ] {
        if set {
            injected.cannot(AgentKind::Opencode, what);
        }
    }
    if ours != json!({}) {
        merge(&mut config, ours);
        injected.env(CONTENT, config.to_string());
    }
    Ok(injected)
}

/// A list with more at its end.
fn added(list: &Value, more: impl IntoIterator<Item = String>) -> Value {
    let mut list = list.as_array().cloned().unwrap_or_default();
    list.extend(more.into_iter().map(Value::from));
    Value::Array(list)
}
