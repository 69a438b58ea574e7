//! Any command: environment variables contain the hub's URL, the name of the variable with the credential, and the
//! path of a file with both in a format that many agents read.

use std::io;

use super::super::AgentKind;
use super::{AgentSetup, InjectedConfig, common_config};

pub(super) fn inject(setup: &AgentSetup<'_>) -> io::Result<InjectedConfig> {
    let mut injected = InjectedConfig::default();
    if let Some(hub) = setup.hub {
        let file = setup.folder.write_file("mcp.json", &common_config(setup, hub).to_string())?;
        injected.env("PLEXUS_RUN_URL", hub.url.as_str());
        injected.env("PLEXUS_RUN_KEY_VARIABLE", hub.key_variable.as_str());
        injected.env("PLEXUS_RUN_CONFIG", file.display().to_string());
        if let Some(id) = setup.conversation.id() {
            injected.env("PLEXUS_RUN_SESSION", id);
        }
    }
    let settings = setup.settings;
    for (what, set) in [
        ("a model", settings.model.is_some()),
        ("an effort", settings.effort.is_some()),
        ("an approval mode", settings.approval_mode.is_some()),
        ("a system prompt", setup.system_prompt.is_some()),
        ("skills", settings.skills.as_deref().is_some_and(|skills| !skills.is_empty())),
        ("a status line", settings.status_line == Some(true)),
    ] {
        if set {
            injected.note_unsupported(AgentKind::Generic, what);
        }
    }
    Ok(injected)
}
