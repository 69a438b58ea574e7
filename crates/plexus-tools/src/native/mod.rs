//! The hub's native tools, one file per domain.

mod list_profiles;
mod list_tools;
mod scratchpad;
mod session_info;
mod todo;
pub(crate) mod tool_call;
mod tool_search;

use crate::Tool;

/// All native tools.
#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        Tool::typed(list_profiles::ListProfiles),
        Tool::typed(list_tools::ListTools),
        Tool::typed(scratchpad::Scratchpad),
        Tool::typed(session_info::SessionInfo),
        Tool::typed(todo::Todo),
        tool_call::tool(),
        Tool::typed(tool_search::ToolSearch),
    ]
}

#[cfg(test)]
mod tests;
