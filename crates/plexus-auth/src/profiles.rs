//! Profiles: what an agent is for, and which tools it is shown.
//!
//! A profile is `profiles/<id>/config.json` in the data folder, with `system_prompt.txt` and
//! `subagent_system_prompt.txt` beside it. Some come with the program; a folder of the same id takes the place of
//! one as a whole. What always holds:
//! - A profile narrows: who has one sees a part of what its scopes show, never more.
//! - A profile that cannot be used takes out only itself, and shows nothing: neither everything, nor what an
//!   earlier or shipped one of its id would.
//! - What a name in a profile means is decided here, for calls, lists and reports alike.

mod choice;
mod file;
mod folder;
mod live;
mod pattern;
mod problem;
mod shipped;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use choice::{Candidate, CandidateServer, Choice};
pub use file::{FullDescription, RunSettings, schema};
pub use live::{LiveProfiles, ProfilesChange};
use pattern::{Pattern, Server};
pub use problem::ProfileProblem;

/// What an agent has that nobody gave another.
pub const DEFAULT: &str = "secretary";
/// Name of the folder in the data folder.
pub const FOLDER: &str = "profiles";

/// A profile whose file was found good.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub id: String,
    pub name: String,
    /// One line, for lists.
    pub description: String,
    pub full_description: FullDescription,
    pub llm_backend: Option<String>,
    /// The first that answers is used.
    pub models: Vec<String>,
    pub temperature: Option<f64>,
    pub max_iterations: Option<u32>,
    /// What `plexus run` gives agents of others, by their name or `*`.
    pub run: BTreeMap<String, RunSettings>,
    pub node_id: Option<String>,
    pub planning_enabled: bool,
    pub planning_mandatory: bool,
    pub system_prompt: Option<String>,
    pub subagent_system_prompt: Option<String>,
    /// None: all tools of the hub.
    enabled_tools: Option<Vec<Pattern>>,
    subagent_tools: Vec<Pattern>,
    /// Only what finds and calls tools is listed, and what is pinned.
    thin: bool,
    pinned: Vec<Pattern>,
    servers: Vec<Server>,
}

/// Where a profile is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileSource {
    /// It comes with the program.
    Shipped,
    /// Its `config.json`.
    File(PathBuf),
}

/// A profile there is, usable or not.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileEntry {
    pub source: ProfileSource,
    /// Else everything that is wrong with it.
    pub profile: Result<Arc<Profile>, Vec<ProfileProblem>>,
}

/// All profiles there are, as they were read at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiles(BTreeMap<String, ProfileEntry>);

impl Profiles {
    /// Those that come with the program.
    #[must_use]
    pub fn shipped() -> Self {
        shipped::profiles(&file::Reader::new())
    }

    #[must_use]
    pub fn get(&self, id: &str) -> Option<&ProfileEntry> {
        self.0.get(id)
    }

    /// By id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ProfileEntry)> {
        self.0.iter().map(|(id, entry)| (id.as_str(), entry))
    }

    /// Those that can be used, by id.
    pub fn usable(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.0.values().filter_map(|entry| entry.profile.as_ref().ok())
    }

    /// The profile of a token; else why there is none that it could have.
    pub fn find(&self, id: &str) -> Result<&Arc<Profile>, String> {
        let there: Vec<&str> = self.usable().map(|profile| profile.id.as_str()).collect();
        match self.0.get(id).map(|entry| &entry.profile) {
            Some(Ok(profile)) => Ok(profile),
            Some(Err(_)) => {
                Err(format!("the profile {id} cannot be used as it is; `plexus profile show {id}` says why"))
            }
            None if there.is_empty() => Err(format!("there is no profile {id}, nor any other")),
            None => Err(format!("there is no profile {id}; there are {}", there.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests;
