//! What a client that listens is told, whatever its era: which of its lists have changed, and which of its resources.
//!
//! A list has changed when what this client sees of it has: what it may not see comes and goes without a word.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use plexus_auth::Principal;
use tokio::sync::watch;

use super::State;
use super::list::Rendered;
use super::offers::{self, Listed};
use super::reads::{self, MAX_URI};
use super::rpc::RpcError;
use crate::offers::{Mailbox, ResourceWatch, VisibleOffers};
use crate::version::Features;

/// Resources that one client hears of at most.
pub(super) const MAX_WATCHED: usize = 256;

/// A list that clients are told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    Tools,
    Prompts,
    /// Resources or templates of them.
    Resources,
}

impl Changed {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// The lists as a client has seen them last.
#[derive(Debug)]
struct ListSnapshot {
    tools: Arc<Rendered>,
    prompts: Arc<Rendered>,
    resources: Arc<Rendered>,
    templates: Arc<Rendered>,
}

impl ListSnapshot {
    fn now(state: &State, principal: &Principal, features: Features) -> Self {
        let offered = |what| offers::rendered(state, principal, what, features);
        Self {
            tools: state.lists.rendered(state.dispatcher.registry(), principal, features),
            prompts: offered(Listed::Prompts),
            resources: offered(Listed::Resources),
            templates: offered(Listed::Templates),
        }
    }

    fn same(&self, other: &Self, of: Changed) -> bool {
        match of {
            Changed::Tools => self.tools.same_as(&other.tools),
            Changed::Prompts => self.prompts.same_as(&other.prompts),
            Changed::Resources => {
                self.resources.same_as(&other.resources) && self.templates.same_as(&other.templates)
            }
        }
    }
}

/// Follows the lists of one client.
#[derive(Debug)]
pub(super) struct Lists {
    features: Features,
    registry: watch::Receiver<u64>,
    offers: watch::Receiver<u64>,
    seen: ListSnapshot,
    /// What has changed and was not told yet.
    untold: VecDeque<Changed>,
}

impl Lists {
    pub(super) fn new(state: &State, principal: &Principal, features: Features) -> Self {
        Self {
            features,
            // Before the first look at the lists, so that no change falls in between.
            registry: state.dispatcher.registry().versions(),
            offers: state.upstreams.offer_versions(),
            seen: ListSnapshot::now(state, principal, features),
            untold: VecDeque::new(),
        }
    }

    /// The next list that has changed. Dropped halfway, it loses nothing.
    pub(super) async fn changed(&mut self, state: &State, principal: &Principal) -> Changed {
        loop {
            if let Some(changed) = self.untold.pop_front() {
                return changed;
            }
            tokio::select! {
                Ok(()) = self.registry.changed() => {}
                Ok(()) = self.offers.changed() => {}
                // Both are gone with the hub.
                else => return std::future::pending().await,
            }
            let now = ListSnapshot::now(state, principal, self.features);
            self.untold.extend(Changed::ALL.into_iter().filter(|of| !now.same(&self.seen, *of)));
            self.seen = now;
        }
    }

    /// Stands for what is in each list, and so for nothing that the client may not see.
    pub(super) fn fingerprints(&self) -> [u64; 3] {
        let resources = self.seen.resources.fingerprint() ^ self.seen.templates.fingerprint().rotate_left(1);
        [self.seen.tools.fingerprint(), self.seen.prompts.fingerprint(), resources]
    }
}

/// The resources that one client hears of.
#[derive(Debug, Default)]
pub(super) struct Watching {
    /// By the URIs that it gave.
    watched: BTreeMap<String, Watched>,
    mailbox: Arc<Mailbox>,
}

#[derive(Debug)]
struct Watched {
    server: String,
    _watch: ResourceWatch,
}

impl Watching {
    /// Follows one more of what is seen. False where its server tells nothing of it, or too many are followed already.
    pub(super) fn add(
        &mut self,
        state: &State,
        owner: &Principal,
        seen: &VisibleOffers,
        uri: &str,
    ) -> Result<bool, RpcError> {
        if self.watched.contains_key(uri) {
            return Ok(true);
        }
        // First: to look for its owner takes a while.
        if self.watched.len() >= MAX_WATCHED || uri.len() > MAX_URI {
            return Ok(false);
        }
        let owned = seen.owner(uri).map_err(|unowned| reads::not_found(uri, &unowned.could_be))?;
        if !seen.tells_of_changes(&owned.server) {
            return Ok(false);
        }
        let (server, theirs, owner) = (&owned.server, &owned.uri, owner.subject());
        let watch = state.upstreams.watch_resource(server, theirs, owner, &self.mailbox, uri);
        let Some(watch) = watch else { return Ok(false) };
        self.watched.insert(uri.to_owned(), Watched { server: owned.server, _watch: watch });
        Ok(true)
    }

    pub(super) fn remove(&mut self, uri: &str) {
        self.watched.remove(uri);
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.watched.keys().map(String::as_str)
    }

    /// Slugs of the servers that they are of.
    pub(super) fn servers(&self) -> BTreeSet<String> {
        self.watched.values().map(|watched| watched.server.clone()).collect()
    }

    /// Where its changes are put down.
    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Those of its URIs that have changed and are still watched, as far as the client still sees their servers.
    pub(super) fn told(
        &self,
        state: &State,
        principal: &Principal,
        changed: BTreeSet<String>,
    ) -> Vec<String> {
        let seen = offers::seen(state, principal);
        let is_told = |uri: &String| {
            self.watched.get(uri).is_some_and(|watched| seen.tells_of_changes(&watched.server))
        };
        changed.into_iter().filter(is_told).collect()
    }
}
