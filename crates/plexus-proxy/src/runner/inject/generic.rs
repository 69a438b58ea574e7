//! Any command: variables say where the hub is, which variable has the credential, and where a file is that says the same
//! in the form that many agents read.

use std::io;

use super::super::AgentKind;
use super::{Injected, Wiring, common_config};

pub(super) fn inject(wiring: &Wiring<'_>) -> io::Result<Injected> {
    let mut injected = Injected::default();
    if let Some(wires) = wiring.wires {
        let file = wiring.scratch.file("mcp.json", &common_config(wiring, wires).to_string())?;
        injected.env("PLEXUS_RUN_URL", wires.url.as_str());
        injected.env("PLEXUS_RUN_KEY_VARIABLE", wires.key_variable.as_str());
        injected.env("PLEXUS_RUN_CONFIG", file.display().to_string());
        if let Some(id) = wiring.conversation.id() {
            injected.env("PLEXUS_RUN_SESSION", id);
        }
    }
    let settings = wiring.settings;
    for (what, set) in [
        ("a model", settings.model.is_some()),
        ("an effort", settings.effort.is_some()),
        ("an approval mode", settings.approval_mode.is_some()),
        ("a system prompt", wiring.system_prompt.is_some()),
        ("skills", settings.skills.as_deref().is_some_and(|skills| !skills.is_empty())),
        ("a status line", settings.status_line == Some(true)),
    ] {
        if set {
            injected.cannot(AgentKind::Generic, what);
        }
    }
    Ok(injected)
}
