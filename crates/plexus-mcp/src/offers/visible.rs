//! Resources and prompts of all servers, as one caller sees them.
//!
//! Visibility follows the same rules as for tools, through the [facilities](plexus_tools::Facility) that the caller's
//! scopes and profile permit: a server whose facility is hidden contributes nothing and has no influence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plexus_proto::tool_name;
use plexus_tools::{Facility, Tool, Visible};
use serde_json::Value;

use super::names::{self, ServerPrompt};
use super::offer::{Entry, ServerOffer, text};
use super::uris::{self, ResourceOwner, ResourceServer, UnknownOwner};

/// The resources and prompts that a caller sees.
#[derive(Debug, Default)]
pub struct VisibleOffers {
    /// By slug.
    servers: BTreeMap<String, VisibleServer>,
}

#[derive(Debug)]
struct VisibleServer {
    offer: Arc<ServerOffer>,
    resources: bool,
    prompts: Option<Arc<Tool>>,
}

/// The server of a prompt, and the server's own name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptOwner {
    pub(crate) server: String,
    pub(crate) prompt: String,
}

impl VisibleOffers {
    /// The part of these offers, by server slug, that the view shows.
    pub fn new(visible: &Visible, offers: impl IntoIterator<Item = (String, Arc<ServerOffer>)>) -> Self {
        let visible_part = |(server, offer): (String, Arc<ServerOffer>)| {
            let resources = visible.facility(&server, Facility::Resources).is_some();
            let prompts = visible.facility(&server, Facility::Prompts).cloned();
            (resources || prompts.is_some()).then_some((server, VisibleServer { offer, resources, prompts }))
        };
        Self { servers: offers.into_iter().filter_map(visible_part).collect() }
    }

    /// The server that a URI or a template belongs to.
    pub(crate) fn owner(&self, uri: &str) -> Result<ResourceOwner, UnknownOwner> {
        uris::owner(&self.resource_servers(), uri)
    }

    /// Whether a server announces changes of its resources.
    pub(crate) fn announces_changes(&self, server: &str) -> bool {
        self.servers.get(server).is_some_and(|part| part.resources && part.offer.subscribe)
    }

    /// Whether a server completes arguments.
    pub(crate) fn completes(&self, server: &str) -> bool {
        self.servers.get(server).is_some_and(|part| part.offer.completions)
    }

    /// The prompt that a name denotes.
    pub(crate) fn prompt(&self, name: &str) -> Option<PromptOwner> {
        let prompt = names::resolve(&self.server_prompts(), name)?;
        Some(PromptOwner { server: prompt.server.to_owned(), prompt: prompt.prompt.to_owned() })
    }

    /// The resources by the URIs they are listed under.
    pub(crate) fn resources(&self) -> BTreeMap<String, Entry> {
        self.by_uri("uri", |resources| &resources.listed)
    }

    pub(crate) fn templates(&self) -> BTreeMap<String, Entry> {
        self.by_uri("uriTemplate", |resources| &resources.templates)
    }

    /// The prompts by the names they are listed under.
    pub(crate) fn prompts(&self) -> BTreeMap<String, Entry> {
        let entries = self.servers.iter().flat_map(|(server, part)| {
            part.offer.prompts.iter().flatten().map(|entry| ((server.as_str(), text(entry, "name")), entry))
        });
        let entries: BTreeMap<(&str, &str), &Entry> = entries.collect();
        let listed = names::listed(&self.server_prompts()).into_iter();
        listed
            .filter_map(|(name, prompt)| {
                let mut entry = Entry::clone(entries.get(&(prompt.server, prompt.prompt))?);
                entry.insert("name".to_owned(), Value::from(name.as_str()));
                Some((name, entry))
            })
            .collect()
    }

    fn resource_servers(&self) -> Vec<ResourceServer<'_>> {
        let has_resources =
            |(_, part): &(&String, &VisibleServer)| part.resources && part.offer.resources.is_some();
        let servers = self.servers.iter().filter(has_resources);
        servers.map(|(server, part)| ResourceServer { server, offer: &part.offer }).collect()
    }

    fn by_uri(
        &self,
        key: &str,
        list: impl for<'r> Fn(&'r super::offer::Resources) -> &'r Vec<Entry>,
    ) -> BTreeMap<String, Entry> {
        let servers = self.resource_servers();
        let entries = || {
            servers.iter().flat_map(|server| {
                let resources = server.offer.resources.as_ref();
                resources.into_iter().flat_map(&list).map(|entry| (server.server, entry))
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
                let uri = uris::listed_uri(server, text(entry, key), &shared).into_owned();
                let mut entry = entry.clone();
                entry.insert(key.to_owned(), Value::from(uri.as_str()));
                (uri, entry)
            })
            .collect()
    }

    fn server_prompts(&self) -> Vec<ServerPrompt<'_>> {
        let mut visible = Vec::new();
        for (server, part) in &self.servers {
            let Some(facility) = &part.prompts else { continue };
            let bare = facility.spec().upstream().is_some_and(|upstream| upstream.bare);
            let actions = &facility.spec().actions;
            let allowed: BTreeSet<&str> = actions.iter().map(|action| &*action.name).collect();
            for entry in part.offer.prompts.iter().flatten() {
                let prompt = text(entry, "name");
                if allowed.contains(tool_name::sanitized(prompt).as_str()) {
                    visible.push(ServerPrompt { server, prompt, bare });
                }
            }
        }
        visible
    }
}
