//! The view of one caller, the only place where names are looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use plexus_auth::Principal;
use plexus_auth::profiles::{Candidate, Profiles};
use plexus_proto::{ErrorCode, tool_name};

use crate::listing::listed;
use crate::profile_view::{self, LoggedWarnings};
use crate::registry::Catalog;
use crate::resolve::{Index, resolve};
use crate::{CallError, Facility, Tool};

/// The tools of a catalog that a principal may use, each restricted to the allowed actions, by listed name.
#[derive(Debug)]
pub struct Visible {
    version: u64,
    tools: BTreeMap<String, Arc<Tool>>,
    /// Canonical names of the listed tools; none for all.
    listed: Option<BTreeSet<String>>,
    /// The facilities that it may use, by canonical name.
    facilities: BTreeMap<String, Arc<Tool>>,
    /// The index for names other than listed ones, built on the first such lookup.
    index: OnceLock<Index>,
    profiles: Arc<Profiles>,
}

impl Visible {
    /// The view of a principal: its scopes, restricted by its profile.
    pub(crate) fn new(catalog: &Catalog, principal: &Principal, logged: &LoggedWarnings) -> Self {
        Self::through(catalog, principal, principal.profile(), |_| true, logged)
    }

    /// The view of a token with this profile within a principal's view. Admin tools are not visible to tokens with a
    /// profile.
    pub(crate) fn of_profile(
        catalog: &Catalog,
        principal: &Principal,
        profile: &str,
        logged: &LoggedWarnings,
    ) -> Self {
        let profile_tools = principal
            .profile()
            .map(|profile_tools| profile_view::apply_profile(catalog, profile_tools, logged).tools);
        let is_visible = |tool: &Tool| {
            profile_tools.as_ref().is_none_or(|profile_tools| profile_tools.contains(&*tool.spec().name))
        };
        Self::through(
            catalog,
            principal,
            Some(profile),
            |tool| !tool.spec().admin && is_visible(tool),
            logged,
        )
    }

    fn through(
        catalog: &Catalog,
        principal: &Principal,
        profile: Option<&str>,
        also: impl Fn(&Tool) -> bool,
        logged: &LoggedWarnings,
    ) -> Self {
        let shown = profile.map(|profile| profile_view::apply_profile(catalog, profile, logged));
        let is_shown = |tool: &&Arc<Tool>| {
            shown.as_ref().is_none_or(|shown| shown.tools.contains(&*tool.spec().name)) && also(tool)
        };
        let is_visible = |tools: &BTreeMap<String, Arc<Tool>>| -> Vec<Arc<Tool>> {
            tools.values().filter(is_shown).filter_map(|tool| tool.narrowed_to(principal)).collect()
        };
        let tools = listed(is_visible(&catalog.tools));
        let facilities = is_visible(&catalog.facilities).into_iter();
        let facilities = facilities.map(|tool| (tool.spec().name.to_string(), tool)).collect();
        // A caller that cannot use `tool_search` and `tool_call` gets the full list.
        let finds = [tool_name::SEARCH, tool_name::CALL].iter().all(|name| tools.contains_key(*name));
        Self {
            version: catalog.version,
            tools,
            listed: shown.and_then(|shown| shown.listed).filter(|_| finds),
            facilities,
            index: OnceLock::new(),
            profiles: catalog.profiles.clone(),
        }
    }

    /// All profiles, as of this view.
    #[must_use]
    pub fn profiles(&self) -> &Arc<Profiles> {
        &self.profiles
    }

    /// The visible tools as input of a profile, so a report about a profile names no invisible tool.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate<'_>> {
        self.tools().map(|tool| profile_view::candidate(tool)).collect()
    }

    /// The given names that refer to a visible tool, so a shared text can be filtered for this caller.
    #[must_use]
    pub fn visible_names(&self, names: &[String]) -> Vec<String> {
        names.iter().filter(|name| self.resolve(name).is_ok()).cloned().collect()
    }

    /// The version of the catalog behind this view.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Ordered by name; without unlisted tools.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values().filter(|tool| !tool.spec().handling.unlisted)
    }

    /// The tools that clients list to their models, ordered by name. A thin profile lists only some.
    pub fn listed_tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools().filter(|tool| self.lists(tool))
    }

    /// The tools that can be called but are not listed.
    pub fn unlisted_tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools().filter(|tool| !self.lists(tool))
    }

    /// Whether lists show only some tools, and the rest is found with `tool_search`.
    #[must_use]
    pub fn is_thin(&self) -> bool {
        self.listed.is_some()
    }

    /// A facility of a server, if this caller may use it.
    #[must_use]
    pub fn facility(&self, server: &str, facility: Facility) -> Option<&Arc<Tool>> {
        self.facilities.get(&facility.name(server))
    }

    /// The same by its canonical name.
    pub(crate) fn facility_named(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        self.facilities.get(name).ok_or_else(|| {
            CallError::new(ErrorCode::UnknownTool, "there is no such resource or prompt that you may use")
        })
    }

    fn lists(&self, tool: &Tool) -> bool {
        self.listed.as_ref().is_none_or(|listed| listed.contains(&*tool.spec().name))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.tools().count()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Resolves a name to a tool, as described in the module `resolve`.
    pub fn resolve(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        resolve(&self.tools, &self.index, name)
    }
}

/// Maximum length of compared words; the cost grows with its square.
const MAX_LENGTH: usize = 64;
/// Maximum number of words that are compared letter by letter: the most promising ones.
const MAX_COMPARED: usize = 50;
/// The minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// The candidate closest to a misspelled word; of two equally close ones, the last.
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let word: String = word.to_lowercase().chars().take(MAX_LENGTH).collect();
    let counts = LetterCounts::of(&word);
    let has_prefix = |candidate: &str| word.len() >= 3 && candidate.starts_with(&word);
    let mut promising: Vec<(f64, usize, &str)> = candidates
        .enumerate()
        .filter(|(_, candidate)| candidate.len() <= MAX_LENGTH)
        .map(|(index, candidate)| (counts.max_similarity(&LetterCounts::of(candidate)), index, candidate))
        .filter(|(most, _, candidate)| *most >= MIN_SIMILARITY || has_prefix(candidate))
        .collect();
    if promising.len() > MAX_COMPARED {
        promising.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        promising.truncate(MAX_COMPARED);
        promising.sort_by_key(|(_, index, _)| *index);
    }
    promising
        .into_iter()
        .map(|(_, _, candidate)| {
            (strsim::normalized_damerau_levenshtein(&word, &candidate.to_lowercase()), candidate)
        })
        .filter(|(similarity, candidate)| *similarity >= MIN_SIMILARITY || has_prefix(candidate))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// The count of each letter in a word, ignoring case. It gives a cheap upper bound for the similarity of two words.
struct LetterCounts {
    counts: [u8; 32],
    length: u8,
}

impl LetterCounts {
    /// The counts of a word of at most [`MAX_LENGTH`] letters.
    fn of(word: &str) -> Self {
        let mut counts = Self { counts: [0; 32], length: 0 };
        for letter in word.chars().flat_map(char::to_lowercase) {
            // Several letters share a slot, which can only overestimate the similarity.
            let count = &mut counts.counts[u32::from(letter) as usize % 32];
            *count = count.saturating_add(1);
            counts.length = counts.length.saturating_add(1);
        }
        counts
    }

    /// An upper bound for the similarity of two words.
    fn max_similarity(&self, other: &Self) -> f64 {
        let both = |(a, b): (&u8, &u8)| u32::from(*a.min(b));
        let common: u32 = self.counts.iter().zip(&other.counts).map(both).sum();
        f64::from(common) / f64::from(self.length.max(other.length).max(1))
    }
}

#[cfg(test)]
mod tests;
