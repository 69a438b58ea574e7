//! What one caller may see: the only place names are looked up.

use std::collections::BTreeMap;
use std::sync::Arc;

use plexus_auth::Principal;
use plexus_auth::profiles::{Candidate, Profiles};

use crate::listing::listed;
use crate::profile_view::{self, Told};
use crate::registry::Catalog;
use crate::resolve::resolve;
use crate::{CallError, Tool};

/// The tools of a catalogue that a principal may use, each cut to the actions it may use, by the names
/// they are listed by.
#[derive(Debug)]
pub struct Visible {
    version: u64,
    tools: BTreeMap<String, Arc<Tool>>,
    profiles: Arc<Profiles>,
}

impl Visible {
    pub(crate) fn new(catalog: &Catalog, principal: &Principal, told: &Told) -> Self {
        let shown = profile_view::shown(catalog, principal, told);
        let shown = |tool: &&Arc<Tool>| shown.as_ref().is_none_or(|shown| shown.contains(&*tool.spec().name));
        let tools =
            catalog.tools.values().filter(shown).filter_map(|tool| tool.narrowed_to(principal)).collect();
        Self { version: catalog.version, tools: listed(tools), profiles: catalog.profiles.clone() }
    }

    /// The profiles there are, as of this view.
    #[must_use]
    pub fn profiles(&self) -> &Arc<Profiles> {
        &self.profiles
    }

    /// What is seen here, for a profile to choose from: so that a report on one names nothing that is not seen.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate<'_>> {
        self.tools().map(|tool| profile_view::candidate(tool)).collect()
    }

    /// Version of the catalogue this was cut from.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// In order of their names.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tool that a name stands for; the module `resolve` says which do.
    pub fn resolve(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        resolve(&self.tools, name)
    }
}

/// Longest words that are compared: the cost grows with the square of it.
const LIKENESS: usize = 64;

/// The candidate a misspelt word most likely meant.
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let word: String = word.to_lowercase().chars().take(LIKENESS).collect();
    candidates
        .filter(|candidate| candidate.len() <= LIKENESS)
        .map(|candidate| {
            (strsim::normalized_damerau_levenshtein(&word, &candidate.to_lowercase()), candidate)
        })
        .filter(|(likeness, candidate)| *likeness >= 0.6 || (word.len() >= 3 && candidate.starts_with(&word)))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
