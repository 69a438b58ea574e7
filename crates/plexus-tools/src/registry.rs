//! All tools, as a snapshot that is replaced atomically.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_auth::profiles::{LiveProfiles, Profiles, ProfilesChange};
use plexus_proto::TokenId;
use tokio::sync::watch;

use crate::listing::listed;
use crate::profile_view::LoggedWarnings;
use crate::{Placement, Tool, Visible};

/// The number of cached views, one per token.
const MAX_VIEWS: u64 = 10_000;

/// By canonical name.
type Tools = BTreeMap<String, Arc<Tool>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) version: u64,
    pub(crate) tools: Tools,
    /// What servers offer besides tools; not part of any tool list.
    pub(crate) facilities: Tools,
    pub(crate) profiles: Arc<Profiles>,
}

pub struct Registry {
    catalog: ArcSwap<Catalog>,
    /// Serializes changes; readers never wait for it.
    change_lock: Mutex<()>,
    versions: watch::Sender<u64>,
    views: Cache<TokenId, Arc<Visible>>,
    profiles: ArcSwapOption<LiveProfiles>,
    logged_warnings: LoggedWarnings,
    /// Canonical names of quarantined tools, and their servers. Not used by lists or search.
    quarantined: ArcSwap<BTreeMap<String, String>>,
    /// User-defined tools that cannot be called, and why. Not used by lists or search.
    absent: ArcSwap<BTreeMap<String, String>>,
}

impl Registry {
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        let registry = Self {
            catalog: ArcSwap::default(),
            change_lock: Mutex::new(()),
            versions: watch::Sender::new(0),
            views: Cache::new(MAX_VIEWS),
            profiles: ArcSwapOption::empty(),
            logged_warnings: LoggedWarnings::default(),
            quarantined: ArcSwap::default(),
            absent: ArcSwap::default(),
        };
        registry.change(|catalog| {
            catalog.extend(tools.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
        registry
    }

    /// Adds tools; a tool with the same name is replaced.
    pub fn add(&self, tools: impl IntoIterator<Item = Tool>) {
        self.change(|catalog| {
            catalog.extend(tools.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
    }

    /// Removes tools; unknown names are ignored.
    pub fn remove(&self, names: &[&str]) {
        self.change(|catalog| catalog.retain(|name, _| !names.contains(&name.as_str())));
    }

    /// Replaces the tools of a server. Views of callers stay valid if nothing has changed.
    pub fn set_upstream(&self, server: &str, tools: impl IntoIterator<Item = Tool>) {
        self.change(|catalog| {
            catalog.retain(|_, tool| !is_of(tool, server));
            catalog.extend(tools.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
    }

    /// Replaces the tools of the servers that run on nodes. A tool whose name is taken is omitted, so it never replaces
    /// a tool of the hub. Returns the omitted ones.
    pub fn set_hosted(&self, tools: Vec<Tool>) -> Vec<String> {
        let mut left_out = Vec::new();
        self.change(|catalog| {
            catalog.retain(|_, tool| !is_hosted(tool));
            for tool in tools {
                let name = tool.spec().name.to_string();
                match catalog.entry(name) {
                    Entry::Occupied(existing) => left_out.push(existing.key().clone()),
                    Entry::Vacant(free) => {
                        free.insert(Arc::new(tool));
                    }
                }
            }
        });
        left_out
    }

    /// Replaces the [facilities](crate::Facility) of a server.
    pub fn set_facilities(&self, server: &str, facilities: impl IntoIterator<Item = Tool>) {
        self.edit(|catalog| {
            let current = &mut catalog.facilities;
            current.retain(|_, tool| !is_of(tool, server));
            current.extend(facilities.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
    }

    /// Replaces the canonical names of the quarantined tools of a server, given by its own name.
    pub fn set_quarantined(&self, server: &str, names: impl IntoIterator<Item = String>) {
        let _one_at_a_time = self.change_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut quarantined = BTreeMap::clone(&self.quarantined.load());
        quarantined.retain(|_, of| of != server);
        quarantined.extend(names.into_iter().map(|name| (name, server.to_owned())));
        self.quarantined.store(Arc::new(quarantined));
    }

    /// The server of a quarantined tool, for admins.
    pub(crate) fn quarantining_server(&self, name: &str) -> Option<String> {
        self.quarantined.load().get(name).cloned()
    }

    /// Replaces the user-defined tools that cannot be called, each with the reason.
    pub(crate) fn set_absent(&self, absent: BTreeMap<String, String>) {
        self.absent.store(Arc::new(absent));
    }

    /// Why a user-defined tool cannot be called, for admins.
    pub(crate) fn why_absent(&self, name: &str) -> Option<String> {
        self.absent.load().get(name).cloned()
    }

    /// Replaces the user-defined tools. A tool whose name is taken is omitted.
    pub fn set_custom(&self, tools: Vec<Tool>) {
        self.change(|catalog| {
            catalog.retain(|_, tool| tool.spec().placement != Placement::Custom);
            for tool in tools {
                catalog.entry(tool.spec().name.to_string()).or_insert_with(|| Arc::new(tool));
            }
        });
    }

    /// Whether a tool other than a user-defined one has this name.
    #[must_use]
    pub fn is_taken(&self, name: &str) -> bool {
        self.catalog.load().tools.get(name).is_some_and(|tool| tool.spec().placement != Placement::Custom)
    }

    /// The listed names of the tools of a server, as seen by a principal that sees all tools.
    #[must_use]
    pub fn listed_of(&self, server: &str) -> Vec<String> {
        let all = listed(self.catalog.load().tools.values().cloned().collect());
        all.into_iter().filter(|(_, tool)| is_of(tool, server)).map(|(name, _)| name).collect()
    }

    /// The same for every server with tools, by slug.
    #[must_use]
    pub fn listed_by_server(&self) -> BTreeMap<String, Vec<String>> {
        let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, tool) in listed(self.catalog.load().tools.values().cloned().collect()) {
            if let Some(upstream) = tool.spec().upstream().filter(|upstream| upstream.node.is_none()) {
                servers.entry(upstream.server.clone()).or_default().push(name);
            }
        }
        servers
    }

    fn change(&self, edit: impl FnOnce(&mut Tools)) {
        self.edit(|catalog| edit(&mut catalog.tools));
    }

    fn edit(&self, edit: impl FnOnce(&mut Catalog)) {
        let _one_at_a_time = self.change_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.catalog.load();
        let mut catalog = Catalog::clone(&current);
        edit(&mut catalog);
        if same(&catalog.tools, &current.tools) && same(&catalog.facilities, &current.facilities) {
            return;
        }
        self.publish(catalog);
    }

    fn publish(&self, catalog: Catalog) {
        let version = catalog.version + 1;
        self.catalog.store(Arc::new(Catalog { version, ..catalog }));
        self.versions.send_replace(version);
    }

    /// Replaces the profiles that restrict tokens. Without profiles, a token with a profile sees nothing.
    pub fn set_profiles(&self, profiles: Arc<Profiles>) {
        self.change_profiles(|| profiles);
    }

    /// Restricts tokens by these profiles from now on; see [`Self::reload_profiles`].
    pub fn follow_profiles(&self, profiles: LiveProfiles) {
        self.profiles.store(Some(Arc::new(profiles.clone())));
        self.change_profiles(|| profiles.load());
    }

    /// Reloads the profile files. Views change for callers whose profile has changed.
    pub fn reload_profiles(&self) -> ProfilesChange {
        let Some(profiles) = self.profiles.load_full() else { return ProfilesChange::default() };
        let change = profiles.reload();
        if !change.is_empty() {
            self.change_profiles(|| profiles.load());
        }
        change
    }

    /// Calls of `profiles` are serialized, so the newest result wins.
    fn change_profiles(&self, profiles: impl FnOnce() -> Arc<Profiles>) {
        let _one_at_a_time = self.change_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.logged_warnings.forget();
        self.publish(Catalog { profiles: profiles(), ..Catalog::clone(&self.catalog.load()) });
    }

    /// Watches the version; a new version means that views may have changed.
    #[must_use]
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
    }

    /// The current view of this principal.
    #[must_use]
    pub fn visible_to(&self, principal: &Principal) -> Arc<Visible> {
        let catalog = self.catalog.load();
        if let Some(view) = self.views.get(&principal.token_id())
            && view.version() == catalog.version
        {
            return view;
        }
        let view = Arc::new(Visible::new(&catalog, principal, &self.logged_warnings));
        self.views.insert(principal.token_id(), view.clone());
        view
    }

    /// All tools, regardless of permissions.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Tool>> {
        self.catalog.load().tools.values().cloned().collect()
    }

    /// The view that a token of this profile would have within the principal's view; not cached.
    #[must_use]
    pub fn visible_through(&self, principal: &Principal, profile: &str) -> Visible {
        Visible::of_profile(&self.catalog.load(), principal, profile, &self.logged_warnings)
    }

    /// The number of listed tools for a principal that may use all of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.catalog.load().tools.values().filter(|tool| !tool.spec().handling.unlisted).count()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether a tool belongs to this server of the hub itself.
fn is_of(tool: &Tool, server: &str) -> bool {
    tool.spec().upstream().is_some_and(|upstream| upstream.node.is_none() && upstream.server == server)
}

/// Whether a tool belongs to a server that runs on a node.
fn is_hosted(tool: &Tool) -> bool {
    tool.spec().upstream().is_some_and(|upstream| upstream.node.is_some())
}

/// Whether a change has no effect, so views stay valid.
fn same(tools: &Tools, other: &Tools) -> bool {
    let alike = |(one, other): (&Arc<Tool>, &Arc<Tool>)| Arc::ptr_eq(one, other) || one.same_as(other);
    tools.len() == other.len()
        && tools.keys().eq(other.keys())
        && tools.values().zip(other.values()).all(alike)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let catalog = self.catalog.load();
        f.debug_struct("Registry")
            .field("version", &catalog.version)
            .field("tools", &catalog.tools.keys())
            .finish()
    }
}
