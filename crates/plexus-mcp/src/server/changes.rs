//! Changes of lists and resources that a listening client is notified of, in every revision.
//!
//! A list has changed only if the part that this client sees has changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use plexus_auth::Principal;
use tokio::sync::watch;

use super::State;
use super::list::RenderedList;
use super::offers::{self, OfferList};
use super::reads::{self, MAX_URI};
use super::rpc::RpcError;
use crate::offers::{Mailbox, ResourceWatch, VisibleOffers};
use crate::version::Features;

/// Most resources that a client can watch.
pub(super) const MAX_WATCHED: usize = 256;

/// A list whose changes clients are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Prompts,
    /// Resources and resource templates.
    Resources,
}

impl ListKind {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// The lists as a client last saw them.
#[derive(Debug)]
struct ListSnapshot {
    tools: Arc<RenderedList>,
    prompts: Arc<RenderedList>,
    resources: Arc<RenderedList>,
    templates: Arc<RenderedList>,
}

impl ListSnapshot {
    fn now(state: &State, principal: &Principal, features: Features) -> Self {
        let rendered = |list| offers::rendered(state, principal, list, features);
        Self {
            tools: state.lists.rendered(state.dispatcher.registry(), principal, features),
            prompts: rendered(OfferList::Prompts),
            resources: rendered(OfferList::Resources),
            templates: rendered(OfferList::Templates),
        }
    }

    fn same(&self, other: &Self, list: ListKind) -> bool {
        match list {
            ListKind::Tools => self.tools.same_as(&other.tools),
            ListKind::Prompts => self.prompts.same_as(&other.prompts),
            ListKind::Resources => {
                self.resources.same_as(&other.resources) && self.templates.same_as(&other.templates)
            }
        }
    }
}

/// Watches the lists of one client.
#[derive(Debug)]
pub(super) struct ListWatcher {
    features: Features,
    registry: watch::Receiver<u64>,
    offers: watch::Receiver<u64>,
    last_snapshot: ListSnapshot,
    /// ListKind lists that have not been returned yet.
    pending: VecDeque<ListKind>,
}

impl ListWatcher {
    pub(super) fn new(state: &State, principal: &Principal, features: Features) -> Self {
        Self {
            features,
            // Subscribed before the lists are read, so that no change is missed.
            registry: state.dispatcher.registry().versions(),
            offers: state.upstreams.offer_versions(),
            last_snapshot: ListSnapshot::now(state, principal, features),
            pending: VecDeque::new(),
        }
    }

    /// Waits for the next changed list. Cancel-safe.
    pub(super) async fn changed(&mut self, state: &State, principal: &Principal) -> ListKind {
        loop {
            if let Some(changed) = self.pending.pop_front() {
                return changed;
            }
            tokio::select! {
                Ok(()) = self.registry.changed() => {}
                Ok(()) = self.offers.changed() => {}
                // Both senders are dropped only when the hub stops.
                else => return std::future::pending().await,
            }
            let now = ListSnapshot::now(state, principal, self.features);
            self.pending
                .extend(ListKind::ALL.into_iter().filter(|list| !now.same(&self.last_snapshot, *list)));
            self.last_snapshot = now;
        }
    }

    /// A hash of each list, which does not depend on anything that the client cannot see.
    pub(super) fn fingerprints(&self) -> [u64; 3] {
        let resources = self.last_snapshot.resources.fingerprint()
            ^ self.last_snapshot.templates.fingerprint().rotate_left(1);
        [self.last_snapshot.tools.fingerprint(), self.last_snapshot.prompts.fingerprint(), resources]
    }
}

/// The resources that one client watches.
#[derive(Debug, Default)]
pub(super) struct WatchedResources {
    /// By the URIs in the client's requests.
    watched: BTreeMap<String, WatchedResource>,
    mailbox: Arc<Mailbox>,
}

#[derive(Debug)]
struct WatchedResource {
    server: String,
    _watch: ResourceWatch,
}

impl WatchedResources {
    /// Watches a visible resource. False if its server announces no changes, or too many resources are watched.
    pub(super) fn add(
        &mut self,
        state: &State,
        owner: &Principal,
        visible: &VisibleOffers,
        uri: &str,
    ) -> Result<bool, RpcError> {
        if self.watched.contains_key(uri) {
            return Ok(true);
        }
        // Checked first, because finding the owner is expensive.
        if self.watched.len() >= MAX_WATCHED || uri.len() > MAX_URI {
            return Ok(false);
        }
        let owned = visible.owner(uri).map_err(|unknown| reads::not_found(uri, &unknown.candidates))?;
        if !visible.announces_changes(&owned.server) {
            return Ok(false);
        }
        let (server, server_uri, owner) = (&owned.server, &owned.uri, owner.subject());
        let watch = state.upstreams.watch_resource(server, server_uri, owner, &self.mailbox, uri);
        let Some(watch) = watch else { return Ok(false) };
        self.watched.insert(uri.to_owned(), WatchedResource { server: owned.server, _watch: watch });
        Ok(true)
    }

    pub(super) fn remove(&mut self, uri: &str) {
        self.watched.remove(uri);
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.watched.keys().map(String::as_str)
    }

    /// The slugs of the servers of the watched resources.
    pub(super) fn servers(&self) -> BTreeSet<String> {
        self.watched.values().map(|watched| watched.server.clone()).collect()
    }

    /// The mailbox that receives the changes.
    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// The changed URIs that are still watched and whose servers the client still sees.
    pub(super) fn still_watched(
        &self,
        state: &State,
        principal: &Principal,
        changed: BTreeSet<String>,
    ) -> Vec<String> {
        let visible = offers::visible(state, principal);
        let is_watched = |uri: &String| {
            self.watched.get(uri).is_some_and(|watched| visible.announces_changes(&watched.server))
        };
        changed.into_iter().filter(is_watched).collect()
    }
}
