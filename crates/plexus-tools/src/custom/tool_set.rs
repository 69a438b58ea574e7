//! The tools in the folder: their manifests, which are enabled, and their reported state.

use std::collections::{BTreeMap, BTreeSet};

use plexus_proto::api::{DefinedTool, DefinedToolState, EnabledBy};

use super::CustomError;
use super::folder::{Entry, Snapshot};
use crate::Tool;

#[derive(Default)]
pub(super) struct ToolSet {
    pub(super) tools: BTreeMap<String, LoadedTool>,
    pub(super) configured: BTreeSet<String>,
    pub(super) enabled_by_command: BTreeSet<String>,
    /// Tools that have the name of a tool of the hub.
    pub(super) clashing: BTreeSet<String>,
    /// The fingerprints of the manifests behind `tools`, and of the last check.
    pub(super) last_read: Snapshot,
    pub(super) last_checked: Snapshot,
}

/// A manifest and its tool.
pub(super) struct LoadedTool {
    pub(super) entry: Entry,
    pub(super) tool: Option<Tool>,
}

impl LoadedTool {
    /// Whether its manifest has the same content.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        matches!((&self.entry.tool, &entry.tool), (Ok(one), Ok(other)) if one.same_as(other))
    }
}

impl ToolSet {
    pub(super) fn enabled_by(&self, name: &str) -> Option<EnabledBy> {
        if self.configured.contains(name) {
            return Some(EnabledBy::Configuration);
        }
        self.enabled_by_command.contains(name).then_some(EnabledBy::Command)
    }

    /// The tools that cannot be called, each with the reason, for admins.
    pub(super) fn absent(&self) -> BTreeMap<String, String> {
        let reason = |(name, loaded): (&String, &LoadedTool)| {
            // The name belongs to a callable tool.
            if self.clashing.contains(name) {
                return None;
            }
            let tool = self.describe(loaded);
            let why = match tool.state {
                DefinedToolState::Enabled => return None,
                DefinedToolState::Disabled => format!(
                    "It is a user-defined tool that is off. `plexus tools enable {name}` switches it on."
                ),
                DefinedToolState::Invalid => format!(
                    "It is a user-defined tool that is wrong: {}. `plexus tools list --defined` says more.",
                    tool.problems.join("; ")
                ),
            };
            Some((name.clone(), why))
        };
        self.tools.iter().filter_map(reason).collect()
    }

    pub(super) fn described(&self, name: &str) -> Result<DefinedTool, CustomError> {
        let loaded = self.tools.get(name).ok_or_else(|| CustomError::Unknown(name.to_owned()))?;
        Ok(self.describe(loaded))
    }

    pub(super) fn describe(&self, LoadedTool { entry, .. }: &LoadedTool) -> DefinedTool {
        let mut problems: Vec<String> = match &entry.tool {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        };
        if self.clashing.contains(&entry.name) {
            problems.push(format!("{}: has the name of a tool of the hub; rename it", entry.file.display()));
        }
        let enabled_by = self.enabled_by(&entry.name);
        DefinedTool {
            name: entry.name.clone(),
            description: entry.tool.as_ref().map(|tool| tool.description.clone()).unwrap_or_default(),
            file: entry.file.display().to_string(),
            state: match (problems.is_empty(), enabled_by) {
                (false, _) => DefinedToolState::Invalid,
                (true, Some(_)) => DefinedToolState::Enabled,
                (true, None) => DefinedToolState::Disabled,
            },
            enabled_by,
            problems,
        }
    }
}

/// An enabled tool whose manifest was removed.
pub(super) fn removed_tool(name: &str) -> DefinedTool {
    DefinedTool {
        name: name.to_owned(),
        description: String::new(),
        file: String::new(),
        state: DefinedToolState::Disabled,
        enabled_by: None,
        problems: vec!["its manifest is gone".to_owned()],
    }
}
