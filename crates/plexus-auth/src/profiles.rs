//! Profiles: the purpose of an agent, and the tools it is shown.
//!
//! A profile is `profiles/<id>/config.json` in the data folder, with `system_prompt.txt` and
//! `subagent_system_prompt.txt` beside it. Some are built in; a folder with the same id replaces a built-in
//! profile completely. Invariants:
//! - A profile only narrows: its tokens see a subset of what their scopes show.
//! - An invalid profile affects only itself, and shows nothing: neither everything, nor the content of an
//!   earlier or built-in version.
//! - Names in a profile are interpreted here, for calls, lists and reports alike.

mod file;
mod folder;
mod live;
mod pattern;
mod problem;
mod shipped;
mod tool_selection;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use file::{FullDescription, RunSettings, schema};
pub use live::{LiveProfiles, ProfilesChange};
use pattern::{Pattern, Server};
pub use problem::ProfileProblem;
pub use tool_selection::{Candidate, CandidateServer, ToolSelection};

/// The profile of agents without an assigned one.
pub const DEFAULT: &str = "secretary";
/// Name of the folder in the data folder.
pub const FOLDER: &str = "profiles";

/// A valid profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub id: String,
    pub name: String,
    /// One line, for lists.
    pub description: String,
    pub full_description: FullDescription,
    pub llm_backend: Option<String>,
    /// In order of preference: the first that answers is used.
    pub models: Vec<String>,
    pub temperature: Option<f64>,
    pub max_iterations: Option<u32>,
    /// What `plexus run` passes to third-party agents, by agent name or `*`.
    pub run: BTreeMap<String, RunSettings>,
    pub node_id: Option<String>,
    pub planning_enabled: bool,
    pub planning_mandatory: bool,
    pub system_prompt: Option<String>,
    pub subagent_system_prompt: Option<String>,
    /// `None` shows all tools of the hub.
    enabled_tools: Option<Vec<Pattern>>,
    subagent_tools: Vec<Pattern>,
    /// List only pinned tools, and those that find and call the others.
    thin: bool,
    pinned: Vec<Pattern>,
    servers: Vec<Server>,
}

/// Origin of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileSource {
    /// Built into the program.
    Shipped,
    /// Its `config.json`.
    File(PathBuf),
}

/// A profile, valid or not.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileEntry {
    pub source: ProfileSource,
    /// The profile, or all errors in it.
    pub profile: Result<Arc<Profile>, Vec<ProfileProblem>>,
}

/// A snapshot of all profiles.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiles(BTreeMap<String, ProfileEntry>);

impl Profiles {
    /// The built-in profiles.
    #[must_use]
    pub fn shipped() -> Self {
        shipped::profiles(&file::Reader::new())
    }

    #[must_use]
    pub fn get(&self, id: &str) -> Option<&ProfileEntry> {
        self.0.get(id)
    }

    /// All profiles, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ProfileEntry)> {
        self.0.iter().map(|(id, entry)| (id.as_str(), entry))
    }

    /// Valid profiles, by id.
    pub fn usable(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.0.values().filter_map(|entry| entry.profile.as_ref().ok())
    }

    /// The profile of a token, or why it cannot be used.
    pub fn find(&self, id: &str) -> Result<&Arc<Profile>, String> {
        let existing: Vec<&str> = self.usable().map(|profile| profile.id.as_str()).collect();
        match self.0.get(id).map(|entry| &entry.profile) {
            Some(Ok(profile)) => Ok(profile),
            Some(Err(_)) => {
                Err(format!("the profile {id} is invalid; run `plexus profile show {id}` for the errors"))
            }
            None if existing.is_empty() => {
                Err(format!("there is no profile {id}, and no other profile either"))
            }
            None => Err(format!("there is no profile {id}; available profiles: {}", existing.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests;
