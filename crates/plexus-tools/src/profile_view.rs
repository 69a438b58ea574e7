//! The part of a catalog that a profile shows, and warnings about names in the profile that match nothing.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use plexus_auth::profiles::{Candidate, CandidateServer, ToolSelection};

use crate::Tool;
use crate::listing::listed;
use crate::registry::Catalog;

/// The number of profiles whose logged warnings are remembered; further profiles log nothing.
const MAX_PROFILES: usize = 1_000;

/// The tools that a profile shows, by canonical names.
#[derive(Debug)]
pub(crate) struct ProfileView {
    pub(crate) tools: BTreeSet<String>,
    /// The listed ones among them; none for all.
    pub(crate) listed: Option<BTreeSet<String>>,
}

/// Applies a profile to all tools.
pub(crate) fn apply_profile(catalog: &Catalog, profile: &str, logged: &LoggedWarnings) -> ProfileView {
    // By the names in the view of all tools, so a profile means the same to every principal.
    let all = listed(catalog.tools.values().cloned().collect());
    let candidates: Vec<_> =
        all.values().chain(catalog.facilities.values()).map(|tool| candidate(tool)).collect();
    let ToolSelection { tools, listed, warnings, .. } = catalog.profiles.shown(profile, &candidates);
    if !warnings.is_empty() && logged.is_first(profile) {
        for warning in warnings {
            tracing::warn!(profile, "{warning}");
        }
    }
    ProfileView { tools, listed }
}

/// The properties of a tool that a profile uses.
pub(crate) fn candidate(tool: &Tool) -> Candidate<'_> {
    let spec = tool.spec();
    Candidate {
        name: &spec.name,
        listed: tool.name(),
        server: spec
            .upstream()
            .map(|upstream| CandidateServer { slug: &upstream.server, groups: &upstream.groups }),
        starts_agents: spec.starts_agents,
    }
}

/// The profiles whose warnings were logged, so each is logged once and not with every view.
#[derive(Debug, Default)]
pub(crate) struct LoggedWarnings(Mutex<HashSet<String>>);

impl LoggedWarnings {
    fn is_first(&self, profile: &str) -> bool {
        let mut profiles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        profiles.len() < MAX_PROFILES && profiles.insert(profile.to_owned())
    }

    /// Called when the profiles have changed.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests;
