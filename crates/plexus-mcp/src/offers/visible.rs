//! Resources and prompts of all servers, as one caller sees them.
//!
//! It is cut by the [facilities](plexus_tools::Facility) that the caller's scopes and profile leave it, and so by the same
//! rules as tools are: of a server whose facility is not seen nothing is in here, and nothing in here depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plexus_proto::tool_name;
use plexus_tools::{Facility, Tool, Visible};
use serde_json::Value;

use super::names::{self, ServerPrompt};
use super::offer::{Entry, Offer, text};
use super::uris::{self, Holder, ResourceOwner, UnknownOwner};

/// A caller's part of what the servers offer.
#[derive(Debug, Default)]
pub struct VisibleOffers {
    /// By slug.
    servers: BTreeMap<String, Part>,
}

#[derive(Debug)]
struct Part {
    offer: Arc<Offer>,
    resources: bool,
    prompts: Option<Arc<Tool>>,
}

/// A prompt that a caller sees, as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptOwner {
    pub(crate) server: String,
    pub(crate) prompt: String,
}

impl VisibleOffers {
    /// What of these offers, by the slugs of their servers, a view leaves.
    pub fn new(visible: &Visible, offers: impl IntoIterator<Item = (String, Arc<Offer>)>) -> Self {
        let part = |(server, offer): (String, Arc<Offer>)| {
            let resources = visible.facility(&server, Facility::Resources).is_some();
            let prompts = visible.facility(&server, Facility::Prompts).cloned();
            (resources || prompts.is_some()).then_some((server, Part { offer, resources, prompts }))
        };
        Self { servers: offers.into_iter().filter_map(part).collect() }
    }

    /// The server that a URI, or a template, is of.
    pub(crate) fn owner(&self, uri: &str) -> Result<ResourceOwner, UnknownOwner> {
        uris::owner(&self.holders(), uri)
    }

    /// Whether a server tells of changes of its resources.
    pub(crate) fn tells_of_changes(&self, server: &str) -> bool {
        self.servers.get(server).is_some_and(|part| part.resources && part.offer.subscribe)
    }

    /// Whether a server completes arguments.
    pub(crate) fn completes(&self, server: &str) -> bool {
        self.servers.get(server).is_some_and(|part| part.offer.completions)
    }

    /// The prompt that a name stands for.
    pub(crate) fn prompt(&self, name: &str) -> Option<PromptOwner> {
        let own = names::resolve(&self.own_prompts(), name)?;
        Some(PromptOwner { server: own.server.to_owned(), prompt: own.prompt.to_owned() })
    }

    /// By the URIs that they are listed by.
    pub(crate) fn resources(&self) -> BTreeMap<String, Entry> {
        self.by_uri("uri", |resources| &resources.listed)
    }

    pub(crate) fn templates(&self) -> BTreeMap<String, Entry> {
        self.by_uri("uriTemplate", |resources| &resources.templates)
    }

    /// By the names that they are listed by.
    pub(crate) fn prompts(&self) -> BTreeMap<String, Entry> {
        let entries = self.servers.iter().flat_map(|(server, part)| {
            part.offer.prompts.iter().flatten().map(|entry| ((server.as_str(), text(entry, "name")), entry))
        });
        let entries: BTreeMap<(&str, &str), &Entry> = entries.collect();
        let listed = names::listed(&self.own_prompts()).into_iter();
        listed
            .filter_map(|(name, own)| {
                let mut entry = Entry::clone(entries.get(&(own.server, own.prompt))?);
                entry.insert("name".to_owned(), Value::from(name.as_str()));
                Some((name, entry))
            })
            .collect()
    }

    fn holders(&self) -> Vec<Holder<'_>> {
        let holds = |(_, part): &(&String, &Part)| part.resources && part.offer.resources.is_some();
        let servers = self.servers.iter().filter(holds);
        servers.map(|(server, part)| Holder { server, offer: &part.offer }).collect()
    }

    fn by_uri(
        &self,
        key: &str,
        list: impl for<'r> Fn(&'r super::offer::Resources) -> &'r Vec<Entry>,
    ) -> BTreeMap<String, Entry> {
        let holders = self.holders();
        let entries = || {
            holders.iter().flat_map(|holder| {
                let resources = holder.offer.resources.as_ref();
                resources.into_iter().flat_map(&list).map(|entry| (holder.server, entry))
            })
        };
        let (mut once, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for (_, entry) in entries() {
            let uri = text(entry, key);
            if !once.insert(uri) {
                shared.insert(uri);
            }
        }
        entries()
            .map(|(server, entry)| {
                let uri = uris::listed(server, text(entry, key), &shared).into_owned();
                let mut entry = entry.clone();
                entry.insert(key.to_owned(), Value::from(uri.as_str()));
                (uri, entry)
            })
            .collect()
    }

    fn own_prompts(&self) -> Vec<ServerPrompt<'_>> {
        let mut own = Vec::new();
        for (server, part) in &self.servers {
            let Some(facility) = &part.prompts else { continue };
            let bare = facility.spec().upstream().is_some_and(|upstream| upstream.bare);
            let actions = &facility.spec().actions;
            let allowed: BTreeSet<&str> = actions.iter().map(|action| &*action.name).collect();
            for entry in part.offer.prompts.iter().flatten() {
                let prompt = text(entry, "name");
                if allowed.contains(tool_name::sanitized(prompt).as_str()) {
                    own.push(ServerPrompt { server, prompt, bare });
                }
            }
        }
        own
    }
}
